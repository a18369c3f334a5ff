import type { BashOutput } from "@sandpiper/wire";

/** The whole output of a command, from the JSON of its pieces in order. */
export class JoinedOutput {
  readonly #maxBytes: number;
  readonly #texts = { stdout: "", stderr: "" };
  #bytes = 0;
  #omitted = 0;

  /** `maxBytes`: of both streams together. The last piece is always kept. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  add(json: string): void {
    this.#join(JSON.parse(json) as BashOutput, false);
  }

  /** The last piece, with the texts of all pieces. */
  end(json: string): BashOutput {
    const last = JSON.parse(json) as BashOutput;
    if (this.#omitted > 0) {
      const where = `GET /api/bash/bash_events/search?command_id__eq=${last.command_id} has all of it`;
      this.#texts.stdout += `\n[${this.#omitted} bytes of the output are left out here: an answer has at most ${this.#maxBytes} bytes; ${where}]\n`;
    }
    this.#join(last, true);
    const { stdout, stderr } = this.#texts;
    return { ...last, stdout: stdout || null, stderr: stderr || null };
  }

  /** Once a piece does not fit, only the end is kept: no gap looks like the output. */
  #join({ stdout, stderr }: BashOutput, isLast: boolean): void {
    const bytes = Buffer.byteLength(stdout ?? "") + Buffer.byteLength(stderr ?? "");
    if (!isLast && (this.#omitted > 0 || this.#bytes + bytes > this.#maxBytes)) {
      this.#omitted += bytes;
      return;
    }
    this.#bytes += bytes;
    this.#texts.stdout += stdout ?? "";
    this.#texts.stderr += stderr ?? "";
  }
}
