import { errorText } from "@sandpiper/core/errors";
import type { Sandbox } from "../../sandbox.ts";
import type { CommandLog, Entry } from "./command-log.ts";
import { type Chunk, type ChunkJson, splitToFit, toOutputJson } from "./event-json.ts";
import type { SandboxHistory } from "./history.ts";
import { type ChunkMask, OutputChunker, type OutputLimits } from "./output-chunker.ts";
import { type CommandRequest, type Ending, runCommand, toEnding } from "./run-command.ts";

export interface RecordedCommandDeps {
  /** `timeout` in seconds. */
  request: CommandRequest & { timeout: number };
  history: SandboxHistory;
  log: CommandLog;
  /** Ends the command; the reason is a sentence. */
  abort: AbortController;
  /** Waits for the command's turn and returns the running sandbox. */
  sandbox: () => Promise<Sandbox>;
  /** True while the sandbox is paused. */
  frozen: () => Promise<boolean>;
  limits: OutputLimits;
  /** Creates a mask for the secrets in one stream. */
  mask: (() => ChunkMask) | undefined;
  /** Stores output as it comes; else collects it, for one complete last output. */
  streams: boolean;
}

/** Wait of the first chunks for more output, ms; it grows with their number. */
const minWaitMs = 80;
const maxWaitMs = 10_000;

/** Chunk size without streaming, bytes: nearly the limit of a frame. */
const collectedBytes = 960_000;

/** Runs a stored command and stores its output. Returns the last output; never rejects. */
export async function runRecordedCommand({
  request,
  history,
  log,
  abort,
  sandbox,
  frozen,
  limits,
  mask,
  streams,
}: RecordedCommandDeps): Promise<Entry> {
  const { signal } = abort;
  const store = (text: ChunkJson, exitCode: number | null) =>
    history.append(
      log,
      (micros) => toOutputJson(micros, log.id, log.nextOrder, exitCode, text),
      exitCode !== null,
    );
  const write = async (chunk: Chunk) => {
    try {
      for (const part of splitToFit(chunk)) await store(part, null);
    } catch (error) {
      abort.abort(
        isDiskFull(error)
          ? "The server's disk is full, so the command was ended."
          : "The output could not be stored.",
      );
      throw error;
    }
  };
  const bounds = streams ? limits : { ...limits, chunkBytes: Math.max(limits.chunkBytes, collectedBytes) };
  const waitMs = () => (streams ? Math.min(maxWaitMs, Math.max(minWaitMs, log.nextOrder)) : undefined);
  const output = new OutputChunker(bounds, write, waitMs, mask);
  let ending: Ending;
  let timer: NodeJS.Timeout | undefined;
  try {
    const running = await Promise.race([sandbox(), rejectOnAbort(signal)]);
    const late = `The command did not end within ${request.timeout} s and was ended.`;
    timer = setTimeout(() => abort.abort(late), request.timeout * 1_000);
    ending = await runCommand(running, request, output, signal, frozen);
  } catch (error) {
    ending = signal.aborted ? toEnding(signal) : { exitCode: -1, reason: errorText(error) };
  } finally {
    clearTimeout(timer);
  }
  const rest = await output.rest().catch(() => ({ stdout: null, stderr: null }));
  const parts = splitToFit({ ...rest, stderr: appendReason(rest.stderr, ending.reason) });
  const last = parts.pop()!;
  for (const part of parts) await store(part, null).catch(() => {});
  return store(last, ending.exitCode);
}

/** True for a full file system. */
export function isDiskFull(error: unknown): boolean {
  return ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "");
}

function appendReason(stderr: string | null, reason: string): string {
  const text = stderr ?? "";
  if (reason === "") return text;
  return `${text === "" || text.endsWith("\n") ? text : `${text}\n`}${reason}\n`;
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(new Error(String(signal.reason)));
    signal.addEventListener("abort", () => reject(new Error(String(signal.reason))), { once: true });
  });
}
