import { errorText } from "@sandpiper/core/errors";
import type { Sandbox } from "../../sandbox.ts";
import type { CommandLog, Entry } from "./command-log.ts";
import { type Chunk, type ChunkJson, splitToFit, toOutputJson } from "./event-json.ts";
import type { SandboxHistory } from "./history.ts";
import { type ChunkMask, OutputChunker, type OutputLimits } from "./output-chunker.ts";
import { type Ending, runCommand } from "./run-command.ts";

export interface RecordedCommandDeps {
  /** `timeout` in seconds. */
  request: { command: string; cwd: string | null; timeout: number };
  history: SandboxHistory;
  log: CommandLog;
  /** Ends the command; its reason is a sentence that says why. */
  abort: AbortController;
  /** Waits until the command may run, and gives the running sandbox. */
  sandbox: () => Promise<Sandbox>;
  /** The sandbox's processes are paused. */
  frozen: () => boolean;
  limits: OutputLimits;
  /** Makes what takes secrets out of what is printed. */
  mask: (() => ChunkMask) | undefined;
  /** Output is stored as it comes. Otherwise it is gathered, so that the last piece is all of it where it is short. */
  streams: boolean;
}

/** How long the first pieces of a command's output wait for more, ms; those of one that prints for hours wait up to ten seconds. */
const firstWaitMs = 80;
const longestWaitMs = 10_000;

/** What is gathered where nobody follows, bytes: the text of an output may be nearly as long as a frame. */
const gatheredBytes = 960_000;

/** Runs a command that is stored, and stores what it prints. Gives the last output; never rejects. */
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
  const write = async (piece: Chunk) => {
    try {
      for (const part of splitToFit(piece)) await store(part, null);
    } catch (error) {
      abort.abort(
        isDiskFull(error)
          ? "The server's disk is full, so the command was ended."
          : "The output could not be stored.",
      );
      throw error;
    }
  };
  const bounds = streams ? limits : { ...limits, chunkBytes: Math.max(limits.chunkBytes, gatheredBytes) };
  const waitMs = () => (streams ? Math.min(longestWaitMs, Math.max(firstWaitMs, log.nextOrder)) : undefined);
  const printed = new OutputChunker(bounds, write, waitMs, mask);
  let ending: Ending;
  let timer: NodeJS.Timeout | undefined;
  try {
    const running = await Promise.race([sandbox(), rejectOnAbort(signal)]);
    const late = `The command did not end within ${request.timeout} s and was ended.`;
    timer = setTimeout(() => abort.abort(late), request.timeout * 1_000);
    ending = await runCommand(running, request, printed, signal, frozen);
  } catch (error) {
    ending = { exitCode: -1, reason: signal.aborted ? String(signal.reason) : errorText(error) };
  } finally {
    clearTimeout(timer);
  }
  const rest = await printed.rest().catch(() => ({ stdout: null, stderr: null }));
  const parts = splitToFit({ ...rest, stderr: appendReason(rest.stderr, ending.reason) });
  const last = parts.pop()!;
  for (const part of parts) await store(part, null).catch(() => {});
  return store(last, ending.exitCode);
}

/** True for an error of a file system without room. */
export function isDiskFull(error: unknown): boolean {
  return ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "");
}

function appendReason(stderr: string | null, reason: string): string {
  const printed = stderr ?? "";
  if (reason === "") return printed;
  return `${printed === "" || printed.endsWith("\n") ? printed : `${printed}\n`}${reason}\n`;
}

/** Rejects when the signal is aborted. */
function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(new Error(String(signal.reason)));
    signal.addEventListener("abort", () => reject(new Error(String(signal.reason))), { once: true });
  });
}
