import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { tryLockFile } from "../../../kernel/file-lock.ts";

const { O_RDWR, O_CREAT, O_NOFOLLOW } = constants;
/** Interval at which a fetching process renews its file, ms. */
const beatMs = 1_000;
/** Delay between two looks of a waiting process, ms. */
const pollMs = 100;
/** Maximum length of a line of progress, characters. */
const maxLine = 200;

export interface FetchLock {
  /** Shows a line of progress to the processes that wait. */
  report(line: string): void;
  release(): void;
}

/**
 * Lets one of several processes fetch an image while the others wait. The kernel releases the lock
 * when its process ends. A process that stands still does not renew its file, so the others then
 * fetch the image too.
 */
export class FetchLocks {
  readonly #folder: string;
  readonly #stillMs: number;

  /** `stillMs`: time without a renewal after which a process counts as standing still, ms. */
  constructor(folder: string, stillMs = 15_000) {
    this.#folder = folder;
    this.#stillMs = stillMs;
  }

  /**
   * Waits until no other process fetches the image of a digest, and reports the progress of that
   * process. Returns undefined when the other process stands still. Throws the signal's reason.
   */
  async acquire(
    digest: string,
    report: (text: string) => void,
    signal: AbortSignal,
  ): Promise<FetchLock | undefined> {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const path = join(this.#folder, digest.replace(":", "-"));
    for (;;) {
      signal.throwIfAborted();
      const fd = openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
      if (tryLockFile(fd, "exclusive")) {
        // The last process with the lock may have removed the file since the open.
        if (statSync(path, { throwIfNoEntry: false })?.ino === fstatSync(fd).ino) return hold(path, fd);
        closeSync(fd);
        continue;
      }
      const { mtimeMs } = fstatSync(fd);
      closeSync(fd);
      if (Date.now() - mtimeMs > this.#stillMs) return undefined;
      report(readLine(path) || "waiting for another process that fetches it");
      await delay(pollMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}

function hold(path: string, fd: number): FetchLock {
  let text = "";
  const write = () => {
    try {
      ftruncateSync(fd, 0);
      // An empty line renews the file too.
      writeSync(fd, `${text}\n`, 0);
    } catch {
      // The fetch itself reports a full disk.
    }
  };
  write();
  const timer = setInterval(write, beatMs).unref();
  return {
    report: (line) => {
      text = line.slice(0, maxLine);
    },
    release: () => {
      clearInterval(timer);
      rmSync(path, { force: true });
      closeSync(fd);
    },
  };
}

function readLine(path: string): string {
  try {
    return readFileSync(path, "utf8").split("\n", 1)[0]!;
  } catch {
    return "";
  }
}
