import { Readable, Writable } from "node:stream";
import { spawn } from "@lydell/node-pty";
import type { ExitStatus, SandboxProcess } from "../../driver.ts";
import { ExecFiles } from "./exec-files.ts";
import { exitStatus } from "./exit-status.ts";
import { OutputStream } from "./output-stream.ts";
import { Signals } from "./signals.ts";
import { ownTerminal, type TtySize, TtySizer } from "./terminal-device.ts";

/**
 * Runs a command in a sandbox on a pseudo-terminal: the runtime makes the sandbox's own and carries bytes and sizes between it and ours.
 * `repair` makes good for what crun leaves undone: `owner` (an id of the host) gets the terminal, and `run` executes a command in the sandbox
 * that sets a changed size.
 */
export function execTty(
  folder: string,
  process: object,
  size: TtySize,
  command: (files: ExecFiles) => string[],
  repair: { owner: number; run: (argv: string[]) => Promise<unknown> } | undefined,
): SandboxProcess {
  const files = new ExecFiles(folder, process);
  const argv = command(files);
  const pty = spawn(argv[0]!, argv.slice(1), { ...size, name: "xterm-256color", cwd: "/", encoding: null });
  const stdout = new OutputStream(pty);
  const signals = new Signals(files.started, pty.pid, () => pty.kill("SIGKILL"));
  const started = files.started.then((pid) => {
    if (repair && pid !== undefined) ownTerminal(pid, repair.owner);
    return pid;
  });
  const sizer = repair && new TtySizer(started, repair.run);
  let message = "";
  let ended = false;

  // With `encoding: null` node-pty takes and gives bytes, whatever its types say.
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
      resolve(exitStatus(signal ? null : exitCode, ran, signals.sent, message));
    });
  });

  const stdin = new Writable({
    // Until the process runs our side still echoes and edits lines; what is written meanwhile waits.
    construct(done) {
      void started.then(() => done());
    },
    write(chunk: Buffer, _encoding, done) {
      if (!ended) pty.write(chunk as unknown as string);
      done();
    },
    final(done) {
      if (!ended) pty.write("\u0004");
      done();
    },
  });

  return {
    stdin,
    stdout,
    stderr: Readable.from([]),
    exit,
    kill: (signal) => signals.send(signal),
    resize: (cols, rows) => {
      if (ended) return;
      pty.resize(cols, rows);
      sizer?.set({ cols, rows });
    },
  };
}
