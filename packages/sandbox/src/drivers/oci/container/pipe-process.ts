import type { Socket } from "node:net";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { ExitStatus, SandboxProcess } from "../../../driver.ts";
import { unlockProcessTerminal } from "../../../kernel/process-terminal.ts";
import type { TtySize } from "../../../kernel/pseudo-terminal.ts";
import { type Descriptor, spawnPiped } from "../../../kernel/spawn.ts";
import { toExitStatus, toRefusedExitCode } from "../../common/commands.ts";
import { sendSignal } from "../../common/processes.ts";
import { findLastMessage } from "../../common/run-program.ts";
import type { ProcessGroup } from "../cgroup/process-groups.ts";
import type { ProcessConfig } from "./config.ts";
import { ExecFiles, type ExecPlace } from "./exec-files.ts";
import { captureOutput, drainOutput } from "./output-pipe.ts";
import type { Runtime } from "./runtime.ts";
import { Signals } from "./signals.ts";

/** Wait for a command whose runtime was killed, ms, and the exit code when it does not end. */
const abandonMs = 200;
const killedCode = 137;

/** Moves the pipes that were passed after stdio to stdio. */
const adoptPipes = ["/bin/sh", "-c", 'exec "$@" <&3 >&4 2>&5 3<&- 4>&- 5>&-', "sh"];

/**
 * Runs a command in a sandbox over pipes. `command` returns the runtime's argv for the two files.
 * crun passes its own stdio to the process. runc would copy between two sets of pipes until every
 * process that inherited them has ended, so it passes ours on as extra descriptors
 * (`--preserve-fds 3`). The runtime gets a session of its own, so that a Ctrl-C at the server's
 * terminal does not reach it.
 */
export function execPiped(
  { place, group }: { place: ExecPlace; group: ProcessGroup },
  process: ProcessConfig,
  kind: Runtime["kind"],
  command: (files: ExecFiles) => string[],
): SandboxProcess {
  const isRunc = kind === "runc";
  const args = isRunc ? [...adoptPipes, ...process.args] : process.args;
  const files = new ExecFiles(place, { ...process, args });
  const argv = command(files);
  const descriptors: Descriptor[] = isRunc
    ? ["null", "null", "out", "in", "out", "out"]
    : ["in", "out", "out"];
  let child: ReturnType<typeof spawnPiped>;
  try {
    child = spawnPiped({ argv, descriptors, oomScore: process.oomScoreAdj });
  } catch (cause) {
    files.finish();
    throw new PlatformError("CommandFailed", { reason: errorText(cause) }, { cause });
  }
  const { pid, pipes } = child;
  files.begin(pid);
  const [stdin, out, err] = pipes.slice(isRunc ? 3 : 0) as [Socket, Socket, Socket];
  // The reader may close the pipe before all input is written.
  stdin.on("error", () => {});
  const stdout = captureOutput(out);
  const stderr = captureOutput(err);
  let ended = false;
  const abandoned = Promise.withResolvers<number>();
  const signals = new Signals(files.started, pid, () => {
    if (ended) return;
    sendSignal(pid, "SIGKILL");
    // The command may be frozen and then does not end.
    setTimeout(() => abandoned.resolve(killedCode), abandonMs);
  });

  let message = "";
  pipes[2]!.on("data", (chunk: Buffer) => {
    if (message.length < 2_048) message += chunk.toString("latin1", 0, 2_048);
  });
  const exit = Promise.race([child.exit, abandoned.promise]).then(async (code): Promise<ExitStatus> => {
    ended = true;
    const ran = files.finish();
    signals.end();
    if (isRunc && !ran) stderr.write(Buffer.from(`${findLastMessage(message)}\n`));
    await Promise.all([drainOutput(out, stdout), drainOutput(err, stderr)]);
    stdin.destroy();
    if (isRunc) pipes[2]!.destroy();
    return ran ? toExitStatus(code, signals.sent) : { code: toRefusedExitCode(message), signal: null };
  });

  const unlockTerminal = async (fd: number, size: TtySize) =>
    unlockProcessTerminal((await files.started) ?? 0, fd, size, (one) => group.has(one));
  const kill = (signal?: NodeJS.Signals) => signals.send(signal);
  const leave = () => {
    for (const pipe of pipes) pipe?.destroy();
    child.unref();
  };
  return { stdin, stdout, stderr, exit, kill, resize: () => {}, unlockTerminal, leave };
}
