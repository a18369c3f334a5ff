import { errorText } from "@sandpiper/core/errors";
import type { Sandbox } from "../../sandbox.ts";
import type { CommandLog, Entry } from "./command-log.ts";
import { fittingTexts, outputText, type Piece, type PieceText } from "./event-text.ts";
import type { SandboxHistory } from "./history.ts";
import { type PieceMask, Printed, type PrintedLimits } from "./output-chunker.ts";
import { type Ending, runCommand } from "./run-command.ts";

export interface StoredRun {
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
  limits: PrintedLimits;
  /** Makes what takes secrets out of what is printed. */
  mask: (() => PieceMask) | undefined;
  /** Output is stored as it comes. Otherwise it is gathered, so that the last piece is all of it where it is short. */
  streams: boolean;
}

/** How long the first pieces of a command's output wait for more, ms; those of one that prints for hours wait up to ten seconds. */
const firstWaitMs = 80;
const longestWaitMs = 10_000;

/** What is gathered where nobody follows, bytes: the text of an output may be nearly as long as a frame. */
const gatheredBytes = 960_000;

/** Runs a command that is stored, and stores what it prints. Gives the last output; never rejects. */
export async function runStored({
  request,
  history,
  log,
  abort,
  sandbox,
  frozen,
  limits,
  mask,
  streams,
}: StoredRun): Promise<Entry> {
  const { signal } = abort;
  const store = (text: PieceText, exitCode: number | null) =>
    history.append(
      log,
      (micros) => outputText(micros, log.id, log.nextOrder, exitCode, text),
      exitCode !== null,
    );
  const write = async (piece: Piece) => {
    try {
      for (const part of fittingTexts(piece)) await store(part, null);
    } catch (error) {
      abort.abort(
        isFull(error)
          ? "The server's disk is full, so the command was ended."
          : "The output could not be stored.",
      );
      throw error;
    }
  };
  const bounds = streams ? limits : { ...limits, pieceBytes: Math.max(limits.pieceBytes, gatheredBytes) };
  const waitMs = () => (streams ? Math.min(longestWaitMs, Math.max(firstWaitMs, log.nextOrder)) : undefined);
  const printed = new Printed(bounds, write, waitMs, mask);
  let ending: Ending;
  let timer: NodeJS.Timeout | undefined;
  try {
    const running = await Promise.race([sandbox(), whenAborted(signal)]);
    const late = `The command did not end within ${request.timeout} s and was ended.`;
    timer = setTimeout(() => abort.abort(late), request.timeout * 1_000);
    ending = await runCommand(running, request, printed, signal, frozen);
  } catch (error) {
    ending = { exitCode: -1, reason: signal.aborted ? String(signal.reason) : errorText(error) };
  } finally {
    clearTimeout(timer);
  }
  const rest = await printed.rest().catch(() => ({ stdout: null, stderr: null }));
  const parts = fittingTexts({ ...rest, stderr: withReason(rest.stderr, ending.reason) });
  const last = parts.pop()!;
  for (const part of parts) await store(part, null).catch(() => {});
  return store(last, ending.exitCode);
}

/** True for an error of a file system without room. */
export function isFull(error: unknown): boolean {
  return ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "");
}

function withReason(stderr: string | null, reason: string): string {
  const printed = stderr ?? "";
  if (reason === "") return printed;
  return `${printed === "" || printed.endsWith("\n") ? printed : `${printed}\n`}${reason}\n`;
}

/** Rejects when the signal is aborted. */
function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(new Error(String(signal.reason)));
    signal.addEventListener("abort", () => reject(new Error(String(signal.reason))), { once: true });
  });
}
