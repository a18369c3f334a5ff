import type { ToolProgress } from "../tools/tool.ts";

/** Least time between two reports of a call, ms. */
const pauseMs = 500;

const maxMessage = 500;

/** Reports the progress of a call: at once, then at most twice a second, the latest state last. */
export class ProgressTeller {
  readonly #tell: (progress: ToolProgress) => void;
  #waiting: ToolProgress | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(tell: (progress: ToolProgress) => void) {
    this.#tell = tell;
  }

  add({ progress, total, message }: ToolProgress): void {
    const text = message?.slice(0, maxMessage).toWellFormed();
    this.#waiting = { progress, ...(total !== undefined && { total }), ...(text && { message: text }) };
    if (!this.#timer) this.#next();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#waiting = undefined;
    // Ignores late progress.
    this.add = () => {};
  }

  #next(): void {
    const told = this.#waiting;
    this.#waiting = undefined;
    this.#timer = told && setTimeout(() => this.#next(), pauseMs).unref();
    if (told) this.#tell(told);
  }
}
