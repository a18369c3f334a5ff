/** Most log lines of one minute. */
export interface LineBounds {
  /** Most lines with the same text. */
  alike: number;
  /** Most lines with any text. */
  all: number;
}

const windowMs = 60_000;

/**
 * Bounds what is logged: whoever can make the server log a line can make it log a million. The
 * lines above the bounds are counted, and reported once when their minute has ended.
 */
export class LineLimits {
  readonly #bounds: LineBounds;
  readonly #report: (leftOut: number) => void;
  readonly #alike = new Map<string, number>();
  #all = 0;
  #leftOut = 0;
  #endsAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(bounds: LineBounds, report: (leftOut: number) => void) {
    this.#bounds = bounds;
    this.#report = report;
  }

  /** Whether a line may be written; `kind` is equal for lines that are alike. */
  admit(kind: string): boolean {
    if (performance.now() >= this.#endsAt) this.#begin();
    const alike = (this.#alike.get(kind) ?? 0) + 1;
    if (this.#all >= this.#bounds.all || alike > this.#bounds.alike) {
      this.#leftOut++;
      this.#timer ??= setTimeout(() => this.#begin(), this.#endsAt - performance.now()).unref();
      return false;
    }
    this.#alike.set(kind, alike);
    this.#all++;
    return true;
  }

  #begin(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const leftOut = this.#leftOut;
    this.#alike.clear();
    this.#all = 0;
    this.#leftOut = 0;
    this.#endsAt = performance.now() + windowMs;
    if (leftOut > 0) this.#report(leftOut);
  }
}
