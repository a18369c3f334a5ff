import { posix } from "node:path";
import type { FileEditorObservation, Observation } from "@sandpiper/wire";
import { hiddenSecret } from "../../masking/output-mask.ts";

/** Versions kept per file (agent-behaviour.md section 14). */
const depth = 10;

/** Earlier versions of files, for `undo_edit`. */
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

/**
 * Versions of a file before logged edits, last first, for use after a restart. `isHidden`: the next
 * one contained a secret, which results do not keep.
 */
export async function versionsIn(
  path: string,
  results: AsyncIterable<Observation>,
): Promise<{ versions: string[]; isHidden: boolean }> {
  const versions: string[] = [];
  let undone = 0;
  for await (const result of results) {
    if (result.kind !== "FileEditorObservation") continue;
    const { command, is_error, path: edited, old_content, new_content } = result as FileEditorObservation;
    if (is_error || command === "view" || posix.normalize(edited ?? "") !== posix.normalize(path)) continue;
    if (command === "undo_edit") undone++;
    else if (undone > 0) undone--;
    else {
      const version = command === "create" ? new_content : old_content;
      if (typeof version !== "string") break;
      if (version.includes(hiddenSecret)) return { versions, isHidden: true };
      if (versions.push(version) === depth) break;
    }
  }
  return { versions, isHidden: false };
}
