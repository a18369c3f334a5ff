import type { ToolProgress } from "../tools/tool.ts";

/** How often one call may tell how far it is, ms. */
const pauseMs = 500;

/** Characters of what it says to that. */
const maxMessage = 500;

/** Tells how far a call is: at once, then twice a second at most, the last state always unless the call ends before. */
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

  /** The call is over. */
  close(): void {
    clearTimeout(this.#timer);
    this.#waiting = undefined;
    // Whatever comes late is not told.
    this.add = () => {};
  }

  #next(): void {
    const told = this.#waiting;
    this.#waiting = undefined;
    this.#timer = told && setTimeout(() => this.#next(), pauseMs).unref();
    if (told) this.#tell(told);
  }
}
