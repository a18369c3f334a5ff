import { type ChildProcess, spawn } from "node:child_process";
import { PlatformError } from "@sandpiper/core/errors";
import { parseKeyOutput } from "./key-file.ts";

/** How long the command may run, ms. */
const timeoutMs = 30_000;
/** Most output that can be a key, bytes. */
const maxOutputBytes = 1_024;
/** Most characters of the messages that an error shows. */
const maxMessage = 500;
/** Fewest characters of an output that the error hides in the messages. */
const minSecretLength = 8;

interface Ended {
  output: Buffer;
  messages: string;
  code: number | null;
  signal: NodeJS.Signals | null;
  timedOut: boolean;
}

/**
 * Runs the command that prints the key of the vault, such as a command of a key management service,
 * without a shell. The command gets the server's environment without the variables of Sandpiper.
 * After 30 s its whole process group is killed. Throws ConfigInvalid with the command's exit code
 * and messages, and never with its output.
 */
export async function runKeyCommand(argv: readonly string[], limits = { timeoutMs }): Promise<Uint8Array> {
  const program = argv[0]!;
  const { output, messages, code, signal, timedOut } = await run(argv, limits.timeoutMs);
  const said = describeMessages(messages, output);
  if (timedOut)
    throw new PlatformError("KeyCommandTimeout", { program, seconds: limits.timeoutMs / 1000, said });
  if (output.length > maxOutputBytes)
    throw new PlatformError("KeyCommandOutputTooLong", { program, max: maxOutputBytes });
  if (code !== 0)
    throw new PlatformError("KeyCommandFailed", {
      program,
      how: signal ? `was killed by ${signal}` : `exited with ${code}`,
      said,
    });
  const key = parseKeyOutput(output);
  if (!key) throw new PlatformError("KeyCommandOutputInvalid", { program, size: output.length, said });
  return key;
}

function run([program, ...args]: readonly string[], limitMs: number): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !name.startsWith("SANDPIPER_")),
    );
    // The command has a process group of its own, so that its children end with it.
    const child = spawn(program!, args, { env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    let output = Buffer.alloc(0);
    let messages = "";
    const end = (how: Pick<Ended, "code" | "signal" | "timedOut">) => {
      clearTimeout(timer);
      killGroup(child);
      child.stdout.destroy();
      child.stderr.destroy();
      resolve({ output, messages, ...how });
    };
    const timer = setTimeout(() => end({ code: null, signal: null, timedOut: true }), limitMs);
    child.stdout.on("data", (chunk: Buffer) => {
      output = Buffer.concat([output, chunk]).subarray(0, maxOutputBytes + 1);
      if (output.length > maxOutputBytes) end({ code: null, signal: null, timedOut: false });
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      messages = (messages + text).slice(-8_192);
    });
    child.once("error", (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      const reason = error.code ?? error.message;
      reject(new PlatformError("KeyCommandUnusable", { program: program!, reason }, { cause: error }));
    });
    child.once("close", (code, signal) => end({ code, signal, timedOut: false }));
  });
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // The process group has ended already.
  }
}

/** Returns the end of the messages on one line, without the output of the command. */
function describeMessages(messages: string, output: Buffer): string {
  const printed = output.toString("latin1").trim();
  const clean = printed.length < minSecretLength ? messages : messages.replaceAll(printed, "(hidden)");
  const line = clean.replace(/[\s\p{Cc}]+/gu, " ").trim();
  if (line === "") return "";
  return `: ${line.length > maxMessage ? `…${line.slice(-maxMessage)}` : line}`;
}
