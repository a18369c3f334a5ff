import { readFileSync, renameSync, writeFileSync } from "node:fs";
import type { FolderLock } from "../../common/sharing/folder-lock.ts";
import type { FolderMembers } from "../../common/sharing/folder-members.ts";

/** Keeps the last digest of each tag in one file, which several processes change. */
export class ImageTags {
  readonly #file: string;
  readonly #lock: FolderLock;
  readonly #members: FolderMembers;

  constructor(file: string, lock: FolderLock, members: FolderMembers) {
    this.#file = file;
    this.#lock = lock;
    this.#members = members;
  }

  get(name: string): string | undefined {
    return this.#read()[name];
  }

  set(name: string, digest: string): void {
    this.#lock.run(() => {
      const tags = this.#read();
      if (tags[name] !== digest) this.#write({ ...tags, [name]: digest });
    });
  }

  /** Removes the tags whose digest `isKept` refuses. */
  keep(isKept: (digest: string) => boolean): void {
    this.#lock.run(() => {
      const kept = Object.entries(this.#read()).filter(([, digest]) => isKept(digest));
      this.#write(Object.fromEntries(kept));
    });
  }

  #read(): Record<string, string> {
    try {
      return JSON.parse(readFileSync(this.#file, "utf8")) as Record<string, string>;
    } catch {
      return {};
    }
  }

  #write(tags: Record<string, string>): void {
    const draft = `${this.#file}.${this.#members.name}`;
    writeFileSync(draft, JSON.stringify(tags));
    renameSync(draft, this.#file);
  }
}
