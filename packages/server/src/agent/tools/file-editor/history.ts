import { posix } from "node:path";

/** Versions kept for each file (agent-behaviour.md section 14). */
const depth = 10;

/** Earlier versions of the files of a conversation, for `undo_edit`. */
export class EditHistory {
  readonly #versions = new Map<string, Buffer[]>();

  push(path: string, content: Buffer): void {
    const key = posix.normalize(path);
    this.#versions.set(key, [...(this.#versions.get(key) ?? []), content].slice(-depth));
  }

  /** The last version, which stays until `drop`. */
  last(path: string): Buffer | undefined {
    return this.#versions.get(posix.normalize(path))?.at(-1);
  }

  drop(path: string): void {
    this.#versions.get(posix.normalize(path))?.pop();
  }
}
