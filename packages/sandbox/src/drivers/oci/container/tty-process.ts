import { Readable } from "node:stream";
import { spawn } from "@lydell/node-pty";
import type { ExitStatus, SandboxProcess } from "../../../driver.ts";
import { setOomScore } from "../../../kernel/oom-score.ts";
import type { TtySize } from "../../../kernel/pseudo-terminal.ts";
import { toExitStatus, toRefusedExitCode } from "../../common/commands.ts";
import { OutputStream } from "../../common/output-stream.ts";
import type { ProcessConfig } from "./config.ts";
import { ExecFiles, type ExecPlace } from "./exec-files.ts";
import { Signals } from "./signals.ts";
import { ownTerminal, TtyResizer } from "./terminal.ts";
import { makeTerminalInput } from "./terminal-input.ts";

/**
 * Runs a command in a sandbox on a pseudo-terminal; the runtime carries bytes and sizes between the
 * sandbox's terminal and ours. `repair` does what crun leaves undone: `owner` (host id) gets the
 * terminal, and `run` executes the command in the sandbox that sets a changed size.
 */
export function execTty(
  place: ExecPlace,
  process: ProcessConfig,
  size: TtySize,
  command: (files: ExecFiles) => string[],
  repair: { owner: number; run: (argv: string[]) => Promise<unknown> } | undefined,
): SandboxProcess {
  const files = new ExecFiles(place, process);
  const argv = command(files);
  const pty = spawn(argv[0]!, argv.slice(1), { ...size, name: "xterm-256color", cwd: "/", encoding: null });
  files.begin(pty.pid);
  setOomScore(pty.pid, process.oomScoreAdj);
  const stdout = new OutputStream(pty);
  const signals = new Signals(files.started, pty.pid, () => pty.kill("SIGKILL"));
  const started = files.started.then((pid) => {
    if (repair && pid !== undefined) ownTerminal(pid, repair.owner);
    return pid;
  });
  const resizer = repair && new TtyResizer(started, repair.run);
  let message = "";
  let ended = false;

  // With `encoding: null` node-pty emits bytes, although its types say strings.
  pty.onData((data) => {
    const chunk = data as unknown as Buffer;
    if (message.length < 2_048) message += chunk.toString("latin1", 0, 2_048);
    stdout.write(chunk);
  });

  const exit = new Promise<ExitStatus>((resolve) => {
    pty.onExit(({ exitCode, signal }) => {
      ended = true;
      const ran = files.finish();
      signals.end();
      stdout.end();
      resolve(
        ran
          ? toExitStatus(signal ? null : exitCode, signals.sent)
          : { code: toRefusedExitCode(message), signal: null },
      );
    });
  });

  // The state of the owning socket shows that the number is still valid.
  const { fd, _socket: owner } = pty as unknown as { fd: number; _socket: { destroyed: boolean } };
  // Until the process runs, our side still echoes and edits lines.
  const stdin = makeTerminalInput(fd, () => !ended && !owner.destroyed, started);

  return {
    stdin,
    stdout,
    stderr: Readable.from([]),
    exit,
    kill: (signal) => signals.send(signal),
    resize: (cols, rows) => {
      if (ended) return;
      pty.resize(cols, rows);
      resizer?.resize({ cols, rows });
    },
  };
}
