import { spawn } from "node:child_process";
import type { Readable } from "node:stream";
import type { ExitStatus, SandboxProcess } from "../../driver.ts";
import { ExecFiles } from "./exec-files.ts";
import { exitStatus } from "./exit-status.ts";
import { OutputStream } from "./output-stream.ts";
import { Signals } from "./signals.ts";

/** How long output must be quiet after the process ended before a pipe that others still hold open is given up, ms. */
const quietMs = 50;

/**
 * Runs a command in a sandbox over pipes. `command` gives the runtime's argv for the two files.
 * The runtime has a session of its own, so a Ctrl-C at the server's terminal does not reach it.
 */
export function execPiped(folder: string, process: object, command: (files: ExecFiles) => string[]): SandboxProcess {
  const files = new ExecFiles(folder, process);
  const argv = command(files);
  const child = spawn(argv[0]!, argv.slice(1), { stdio: ["pipe", "pipe", "pipe"], detached: true });
  // The reader of a pipe may end before everything is written; that is the command's own affair.
  child.stdin.on("error", () => {});
  const stdout = capture(child.stdout);
  const stderr = capture(child.stderr);
  const signals = new Signals(files.started, () => child.kill("SIGKILL"));

  const exit = new Promise<ExitStatus>((resolve) => {
    let message = "";
    child.stderr.on("data", (chunk: Buffer) => {
      if (message.length < 2_048) message += chunk.toString("latin1", 0, 2_048);
    });
    const ended = async (code: number | null) => {
      const ran = files.finish();
      signals.end();
      await Promise.all([readOut(child.stdout, stdout), readOut(child.stderr, stderr)]);
      child.stdin.destroy();
      resolve(exitStatus(code, ran, signals.sent, message));
    };
    child.on("error", (error) => {
      stderr.write(Buffer.from(`${error.message}\n`));
      void ended(126);
    });
    child.on("exit", (code) => void ended(code));
  });

  return { stdin: child.stdin, stdout, stderr, exit, kill: (signal) => signals.send(signal), resize: () => {} };
}

function capture(source: Readable): OutputStream {
  const output = new OutputStream(source);
  source.on("data", (chunk: Buffer) => output.write(chunk));
  source.on("end", () => output.end());
  source.on("error", () => output.end());
  return output;
}

/** Resolves when the pipe is at its end, or when the process is gone and nothing more comes although the reader keeps up. */
async function readOut(source: Readable, output: OutputStream): Promise<void> {
  if (source.readableEnded || source.destroyed) return output.end();
  await new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(timer);
      resolve();
    };
    let timer: NodeJS.Timeout;
    const wait = () => {
      const before = output.chunks;
      timer = setTimeout(() => {
        // A round of I/O must have passed after the timer, or a busy event loop would look like quiet.
        setImmediate(() => (output.full || output.chunks !== before ? wait() : done()));
      }, quietMs);
    };
    wait();
    source.once("close", done);
  });
  output.end();
  source.destroy();
}
