"""Commands: output, exit code, standard error, folder, time-out, long output"""

from support import FOLDER, remote_workspace

with remote_workspace() as workspace:
    result = workspace.execute_command("echo out; echo err >&2; exit 3", cwd=FOLDER)
    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n"), result
    assert workspace.execute_command("pwd", cwd="/tmp").stdout == "/tmp\n"
    late = workspace.execute_command("echo begun; sleep 60", timeout=1.0)
    assert late.timeout_occurred and late.exit_code != 0, late
    long = workspace.execute_command("seq 1 100000", cwd=FOLDER)
    assert long.stdout == "".join(f"{number}\n" for number in range(1, 100001)), len(long.stdout)
