import type { OutputMask } from "../masking/output-mask.ts";
import type { ToolProgress } from "../tools/tool.ts";

/** Least time between two reports of a call, ms. */
const pauseMs = 500;

const maxMessage = 500;

/** Characters of output in one report; of more, the end. */
export const maxReportedOutput = 16_000;

/** A masked report of a running call. */
export interface CallProgress {
  progress: number;
  total?: number;
  message?: string;
  /** What was printed up to `output_end`, at least since the last report unless it was too long. */
  output?: string;
  /** Characters of all output so far, as it is shown. */
  output_end?: number;
}

/** Reports the progress of a call: at once, then at most twice a second, the latest state last. */
export class ProgressReporter {
  readonly #mask: OutputMask;
  readonly #report: (progress: CallProgress) => void;
  readonly #stream: ReturnType<OutputMask["stream"]>;
  #waiting: ToolProgress | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Masked output that no report has. */
  #output = "";
  #outputEnd = 0;

  constructor(mask: OutputMask, report: (progress: CallProgress) => void) {
    this.#mask = mask;
    this.#report = report;
    this.#stream = mask.stream();
  }

  add(progress: ToolProgress): void {
    if (this.#isClosed) return;
    if (progress.output) {
      const shown = this.#stream.write(progress.output);
      this.#output = (this.#output + shown).slice(-maxReportedOutput);
      this.#outputEnd += shown.length;
    }
    this.#waiting = progress;
    if (!this.#timer) this.#next();
  }

  /** Ignores late progress from now on. */
  close(): void {
    clearTimeout(this.#timer);
    this.#isClosed = true;
  }

  #next(): void {
    const next = this.#waiting;
    this.#waiting = undefined;
    this.#timer = next && setTimeout(() => this.#next(), pauseMs).unref();
    if (!next) return;
    const { progress, total, message } = next;
    const text = message?.slice(0, maxMessage).toWellFormed();
    const output = this.#output.toWellFormed();
    this.#output = "";
    this.#report({
      progress,
      ...(total !== undefined && { total }),
      ...(text && { message: this.#mask.text(text) }),
      ...(output && { output, output_end: this.#outputEnd }),
    });
  }
}
