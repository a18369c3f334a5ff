"""Changes and diffs of a repository: edited, new, deleted, committed"""

from support import FOLDER, remote_workspace

SETUP = """
git init -q -b main . && git config user.email a@example.com && git config user.name Ann
printf 'one\\n' > edited.txt && printf 'x\\n' > gone.txt && git add . && git commit -q -m first
printf 'one\\ntwo\\n' > edited.txt && rm gone.txt && printf 'new\\n' > new.txt
"""
with remote_workspace() as workspace:
    assert workspace.execute_command(SETUP, cwd=FOLDER).exit_code == 0
    changes = {str(change.path): change.status.value for change in workspace.git_changes(FOLDER)}
    assert changes == {"edited.txt": "UPDATED", "gone.txt": "DELETED", "new.txt": "ADDED"}, changes
    diff = workspace.git_diff(f"{FOLDER}/edited.txt")
    assert diff.modified.rstrip("\n") == "one\ntwo", diff
    assert diff.original.rstrip("\n") == "one", diff
    workspace.execute_command("git add -A && git commit -q -m second", cwd=FOLDER)
    assert workspace.git_changes(FOLDER) == []
