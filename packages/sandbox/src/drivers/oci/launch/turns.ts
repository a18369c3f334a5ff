import { randomBytes } from "node:crypto";
import { closeSync, constants, fstatSync, mkdirSync, openSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import { tryLockFile } from "../../../kernel/file-lock.ts";
import type { FolderLock } from "../../common/sharing/folder-lock.ts";

const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;

/** Maximum wait for the turn of an earlier start or end of the same sandbox, ms. */
const maxWaitMs = 5_000;
const pollMs = 5;

/** A file that a turn has locked. Another turn of the sandbox has a file with another inode. */
export interface TurnFile {
  path: string;
  inode: bigint;
}

/** False once another start or end of the sandbox has taken the turn away. */
export function isCurrent({ path, inode }: TurnFile): boolean {
  return statSync(path, { bigint: true, throwIfNoEntry: false })?.ino === inode;
}

/**
 * Lets the starts and ends of one sandbox happen one after the other, over all processes of this
 * machine. Each sandbox in work has a locked file in `folder`, and the kernel releases the lock
 * when the process ends. A process that stands still, or a start that does not end, keeps its turn
 * for `maxWaitMs` once another one waits; then the other one takes the turn away.
 */
export class Turns {
  readonly #folder: string;
  readonly #lock: FolderLock;

  /** `folder` is on a tmpfs, which does not use the number of a removed file again. */
  constructor(folder: string, lock: FolderLock) {
    this.#folder = folder;
    this.#lock = lock;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  /** Runs work in a turn of the sandbox. Throws what the work throws. */
  async run<T>(id: string, work: (turn: Turn) => Promise<T>): Promise<T> {
    const turn = await this.#take(id);
    try {
      return await work(turn);
    } finally {
      turn.end();
    }
  }

  async #take(id: string): Promise<Turn> {
    const path = join(this.#folder, id);
    let waitsFor: bigint | undefined;
    for (let end = 0; ; await delay(pollMs)) {
      const fd = openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
      const file = { path, inode: fstatSync(fd, { bigint: true }).ino };
      const isFree = tryLockFile(fd, "exclusive");
      if (isFree && isCurrent(file)) return new Turn(id, { fd, file, lock: this.#lock, isTaken: false });
      closeSync(fd);
      if (isFree) continue;
      if (waitsFor !== file.inode) {
        waitsFor = file.inode;
        end = performance.now() + maxWaitMs;
      } else if (performance.now() > end) {
        const turn = this.#lock.run(() => this.#takeAway(id, file));
        if (turn) return turn;
      }
    }
  }

  /** Undefined when the turn has ended meanwhile. The caller holds the lock of the folder. */
  #takeAway(id: string, held: TurnFile): Turn | undefined {
    if (!isCurrent(held)) return undefined;
    const draft = join(this.#folder, `.${randomBytes(6).toString("hex")}`);
    const fd = openSync(draft, O_RDWR | O_CREAT | O_EXCL, 0o600);
    tryLockFile(fd, "exclusive");
    renameSync(draft, held.path);
    const file = { path: held.path, inode: fstatSync(fd, { bigint: true }).ino };
    return new Turn(id, { fd, file, lock: this.#lock, isTaken: true });
  }
}

/** The right to start or end one sandbox. */
export class Turn {
  readonly file: TurnFile;
  /** The turn was taken away from a start or end that may go on at any time. */
  readonly isTaken: boolean;
  readonly #id: string;
  readonly #fd: number;
  readonly #lock: FolderLock;

  constructor(id: string, parts: { fd: number; file: TurnFile; lock: FolderLock; isTaken: boolean }) {
    this.#id = id;
    this.#fd = parts.fd;
    this.#lock = parts.lock;
    this.file = parts.file;
    this.isTaken = parts.isTaken;
  }

  /**
   * Called after each wait and before each change. Throws SandboxFailed when the turn was taken
   * away: what is there now belongs to the next turn.
   */
  require(): void {
    if (!isCurrent(this.file)) throw new PlatformError("SandboxTurnLost", { id: this.#id });
  }

  /** Called once. */
  end(): void {
    try {
      // Under the lock, nobody takes the turn away between the look and the removal.
      this.#lock.run(() => {
        if (isCurrent(this.file)) rmSync(this.file.path, { force: true });
      });
    } finally {
      closeSync(this.#fd);
    }
  }
}
