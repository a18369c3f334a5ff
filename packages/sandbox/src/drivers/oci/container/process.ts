import type { Socket } from "node:net";
import { kill } from "node:process";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { ExitStatus, SandboxProcess } from "../../../driver.ts";
import { type Descriptor, spawnPiped } from "../../../kernel/spawn.ts";
import type { processConfig } from "./config.ts";
import { ExecFiles } from "./exec-files.ts";
import { exitStatus } from "./exit-status.ts";
import { capture, readOut } from "./output-pipe.ts";
import { type Runtime, reasonOf } from "./runtime.ts";
import { Signals } from "./signals.ts";

/** How long after its runtime was ended a command is waited for, ms, and the code that it then has. */
const lifelineMs = 200;
const killed = 137;

/** Takes over the pipes that were handed through beside stdio. */
const adoptPipes = ["/bin/sh", "-c", 'exec "$@" <&3 >&4 2>&5 3<&- 4>&- 5>&-', "sh"];

/**
 * Runs a command in a sandbox over pipes. `command` gives the runtime's argv for the two files.
 * crun hands its own stdio to the process. runc would copy between two sets of pipes and not end before every process that inherited them
 * has, so it hands ours through beside its stdio (`--preserve-fds 3`).
 * The runtime has a session of its own, so a Ctrl-C at the server's terminal does not reach it.
 */
export function execPiped(
  folder: string,
  process: ReturnType<typeof processConfig>,
  kind: Runtime["kind"],
  command: (files: ExecFiles) => string[],
): SandboxProcess {
  const through = kind === "runc";
  const files = new ExecFiles(
    folder,
    through ? { ...process, args: [...adoptPipes, ...process.args] } : process,
  );
  const argv = command(files);
  const descriptors: Descriptor[] = through
    ? ["null", "null", "out", "in", "out", "out"]
    : ["in", "out", "out"];
  let child: ReturnType<typeof spawnPiped>;
  try {
    child = spawnPiped({ argv, descriptors });
  } catch (error) {
    files.finish();
    throw new PlatformError("SandboxFailed", `The command could not be run: ${errorText(error)}.`, {
      cause: error,
    });
  }
  const { pid, pipes } = child;
  const [stdin, out, err] = pipes.slice(through ? 3 : 0) as [Socket, Socket, Socket];
  // The reader of a pipe may end before everything is written; that is the command's own affair.
  stdin.on("error", () => {});
  const stdout = capture(out);
  const stderr = capture(err);
  let ended = false;
  const abandoned = Promise.withResolvers<number>();
  const signals = new Signals(files.started, pid, () => {
    if (ended) return;
    kill(pid, "SIGKILL");
    // What it has begun may be frozen, and shows no end before the sandbox goes on.
    setTimeout(() => abandoned.resolve(killed), lifelineMs);
  });

  let message = "";
  pipes[2]!.on("data", (chunk: Buffer) => {
    if (message.length < 2_048) message += chunk.toString("latin1", 0, 2_048);
  });
  const exit = Promise.race([child.exit, abandoned.promise]).then(async (code): Promise<ExitStatus> => {
    ended = true;
    const ran = files.finish();
    signals.end();
    if (through && !ran) stderr.write(Buffer.from(`${reasonOf(message)}\n`));
    await Promise.all([readOut(out, stdout), readOut(err, stderr)]);
    stdin.destroy();
    if (through) pipes[2]!.destroy();
    return exitStatus(code, ran, signals.sent, message);
  });

  return { stdin, stdout, stderr, exit, kill: (signal) => signals.send(signal), resize: () => {} };
}
