import { createHash, randomBytes } from "node:crypto";
import {
  closeSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { release } from "node:os";
import { join } from "node:path";
import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { openDetachedMount } from "../../../kernel/detached-mount.ts";
import { mapOwners } from "../../../kernel/id-mapped.ts";
import { createUserNamespace } from "../../../kernel/user-namespace.ts";
import type { FolderLock } from "../../common/sharing/folder-lock.ts";
import { getSandboxIdBase, idRangeSize, isRootless } from "../../common/uid-range.ts";

/**
 * The ids of the processes of one sandbox. On the disk, the files of all sandboxes have the same
 * ids.
 */
export interface IdRange {
  /** Host id of id 0 inside. */
  base: number;
  /** User namespace of the processes; undefined without root: the runtime creates it. */
  processes: number | undefined;
  /** User namespace that maps owners on the disk to the range; undefined: they are the same ids. */
  files: number | undefined;
  /** Closes both descriptors; called once the sandbox runs. */
  close(): void;
}

/** Ranges above that of the files, and below ids that some programs take for negative numbers. */
const rangeCount = Math.floor((0x7000_0000 - getSandboxIdBase()) / idRangeSize) - 1;
/** The first owner of user namespaces of sandboxes; no process and no file has these ids. */
const firstOwner = 0x0f00_0000;

export interface IdRangesOptions {
  /** Unique name of the installation on this machine. */
  installation: string;
  /** Folder with one folder for each running sandbox, which remembers the range. */
  boxes: string;
  /** Folder with a link for each used range, from its number to the sandbox. */
  ranges: string;
  lock: FolderLock;
  /** Folder of all layers and images. */
  files: string;
  /** True when the user namespaces of sandboxes should have different owners. */
  ownOwners: boolean;
  logger: Logger | undefined;
}

interface UsedRange {
  number: number;
  base: number;
  /** Text that each start of a sandbox changes. */
  start: string;
}

/**
 * Gives each running sandbox ids of its own, because the kernel counts many objects (inotify
 * watches, pending signals, pages of pipes, …) by user id, also across namespaces. Where the kernel
 * cannot map the owners of layers (before Linux 5.19, some filesystems, without root), all
 * sandboxes have the ids of their files; their user namespaces still have different owners.
 */
export class IdRanges {
  readonly #options: IdRangesOptions;
  readonly #offset: number;
  readonly #separate: boolean;
  #ownOwners: boolean;

  constructor(options: IdRangesOptions) {
    this.#options = options;
    this.#ownOwners = options.ownOwners;
    this.#separate = this.#canMapFiles();
    // Installations on one machine begin at different numbers.
    this.#offset = createHash("sha256").update(options.installation).digest().readUInt32LE() % rangeCount;
    options.lock.run(() => this.#restoreLinks());
  }

  /** Takes a range for a sandbox whose folder in `boxes` exists. Throws what the kernel refuses. */
  take(id: string): IdRange {
    const number = this.#options.lock.run(() => this.#claimNumber(id));
    const place = (this.#offset + number) % rangeCount;
    const base = getSandboxIdBase() + (this.#separate ? (1 + place) * idRangeSize : 0);
    writeFileSync(this.#file(id), `${number} ${base} ${randomBytes(6).toString("hex")}`);
    if (isRootless()) return { base, processes: undefined, files: undefined, close: () => {} };
    const processes = this.#createOwned(base, firstOwner + place);
    try {
      const files = this.#separate ? mapFiles(base) : undefined;
      const close = () => {
        closeSync(processes);
        if (files !== undefined) closeSync(files);
      };
      return { base, processes, files, close };
    } catch (error) {
      closeSync(processes);
      throw error;
    }
  }

  /**
   * Returns the host id of id 0 in a running sandbox, and a text that each start changes. A sandbox
   * that a server of an older version started has the ids of the files.
   */
  get(id: string): { base: number; start: string } {
    return this.#readUsed(id) ?? { base: getSandboxIdBase(), start: "" };
  }

  /** Releases the range of a sandbox without processes, before its folder in `boxes` is removed. */
  release(id: string): void {
    const used = this.#readUsed(id);
    if (!used) return;
    this.#options.lock.run(() => {
      if (this.#holder(used.number) === id) rmSync(this.#link(used.number), { force: true });
    });
  }

  /** Claims the lowest free number. The caller holds the lock. */
  #claimNumber(id: string): number {
    const used = new Set(readdirSync(this.#options.ranges).map(Number));
    let number = 0;
    while (used.has(number)) number++;
    symlinkSync(id, this.#link(number));
    return number;
  }

  /**
   * Removes the links of sandboxes that have ended, and makes the missing links of sandboxes that a
   * server of an older version started. The caller holds the lock.
   */
  #restoreLinks(): void {
    const { boxes, ranges } = this.#options;
    mkdirSync(ranges, { recursive: true, mode: 0o700 });
    for (const number of readdirSync(ranges).map(Number)) {
      const holder = this.#holder(number);
      const isUsed = holder !== undefined && existsSync(join(boxes, holder));
      if (!isUsed || (this.#readUsed(holder)?.number ?? number) !== number)
        rmSync(this.#link(number), { force: true });
    }
    for (const id of readdirSync(boxes)) {
      const used = this.#readUsed(id);
      if (used && this.#holder(used.number) === undefined) symlinkSync(id, this.#link(used.number));
    }
  }

  #holder(number: number): string | undefined {
    try {
      return readlinkSync(this.#link(number));
    } catch {
      return undefined;
    }
  }

  #link(number: number): string {
    return join(this.#options.ranges, String(number));
  }

  /** The user namespace of the processes, with an owner of its own if the machine permits it. */
  #createOwned(base: number, owner: number): number {
    const extents = [{ inside: 0, outside: base, count: idRangeSize }];
    if (this.#ownOwners) {
      try {
        return createUserNamespace(extents, owner);
      } catch (error) {
        this.#ownOwners = false;
        this.#options.logger?.warn({ reason: errorText(error) }, ownersWarning);
      }
    }
    return createUserNamespace(extents);
  }

  #file(id: string): string {
    return join(this.#options.boxes, id, "ids");
  }

  #readUsed(id: string): UsedRange | undefined {
    try {
      const [number, base, start = ""] = readFileSync(this.#file(id), "latin1").split(" ");
      const used = { number: Number(number), base: Number(base), start };
      return used.number >= 0 && used.base > 0 ? used : undefined;
    } catch {
      return undefined;
    }
  }

  #canMapFiles(): boolean {
    const [major, minor] = release().split(".").map(Number);
    if (isRootless() || major! < 5 || (major === 5 && minor! < 19)) return false;
    const userNamespace = mapFiles(getSandboxIdBase() + idRangeSize);
    const mount = openDetachedMount(this.#options.files);
    try {
      mapOwners(mount, userNamespace);
      return true;
    } catch (error) {
      this.#options.logger?.warn({ reason: errorText(error) }, sharedWarning);
      return false;
    } finally {
      closeSync(mount);
      closeSync(userNamespace);
    }
  }
}

/** Root owns what the kernel keeps in the work folders of layers. */
function mapFiles(base: number): number {
  return createUserNamespace([
    { inside: 0, outside: 0, count: 1 },
    { inside: getSandboxIdBase(), outside: base, count: idRangeSize },
  ]);
}

const sharedWarning =
  "The filesystem of the sandboxes cannot map the owners of files: the processes of all sandboxes have the same ids.";
const ownersWarning =
  "Only root may create user namespaces on this machine: the kernel counts some objects of all sandboxes together.";
