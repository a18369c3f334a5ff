import type { Socket } from "node:net";
import { errorText } from "@sandpiper/core/errors";
import { spawnPiped } from "../../kernel/spawn.ts";
import { sendSignal } from "./processes.ts";

export interface CommandResult {
  code: number;
  /** stdout */
  output: string;
  /** The last message on stderr; empty when there is none. */
  reason: string;
}

/**
 * Runs a program and everything that it starts to the end. Never rejects; a program that takes
 * longer than `timeoutMs` is killed and gets the code 124.
 */
export async function runProgram(
  argv: string[],
  { timeoutMs }: { timeoutMs: number },
): Promise<CommandResult> {
  let output = "";
  let errors = "";
  let child: ReturnType<typeof spawnPiped>;
  try {
    child = spawnPiped({ argv, descriptors: ["null", "out", "out"] });
  } catch (error) {
    return { code: 127, output, reason: errorText(error) };
  }
  const [stdout, stderr] = child.pipes.slice(1) as [Socket, Socket];
  stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  stderr.setEncoding("utf8").on("data", (text: string) => {
    errors = (errors + text).slice(-8_192);
  });
  let timedOut = false;
  // It has its own process group.
  const timer = setTimeout(() => {
    timedOut = true;
    sendSignal(-child.pid, "SIGKILL");
  }, timeoutMs);
  const closed = [stdout, stderr].map(
    (pipe) => new Promise((resolve) => pipe.on("error", () => {}).once("close", resolve)),
  );
  const code = await child.exit;
  clearTimeout(timer);
  await Promise.all(closed);
  if (timedOut) return { code: 124, output, reason: `no answer within ${timeoutMs / 1000} s` };
  return { code, output, reason: findLastMessage(errors) };
}

/**
 * The message in the last line of stderr: `msg="…"` when it has one (runc, skopeo), else the line
 * without `decoration`.
 */
export function findLastMessage(stderr: string, decoration = /^/): string {
  const line = stderr.trimEnd().split("\n").at(-1) ?? "";
  const message = /\bmsg=("(?:[^"\\]|\\.)*")/.exec(line)?.[1];
  if (message === undefined) return line.replace(decoration, "");
  try {
    return String(JSON.parse(message));
  } catch {
    return message;
  }
}
