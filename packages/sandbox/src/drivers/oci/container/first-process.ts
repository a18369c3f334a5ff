import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isAlive, statFields } from "../../common/process-stat.ts";

interface FirstProcess {
  pid: number;
  /** When it began, ticks since the machine did: no later process with the same id has it. */
  since: string;
}

/** The first processes of sandboxes, which live as long as their process id namespaces. The runtime writes their ids into `folder`. */
export class FirstProcesses {
  readonly #folder: string;
  readonly #boxes: string;
  readonly #known = new Map<string, FirstProcess>();

  /** Something below `boxes/<id>/` is mounted in every sandbox, and in no other place. */
  constructor(folder: string, boxes: string) {
    this.#folder = folder;
    this.#boxes = boxes;
  }

  pidFile(id: string): string {
    return join(this.#folder, `${id}.pid`);
  }

  /** Undefined when it has ended. */
  of(id: string): number | undefined {
    const known = this.#known.get(id) ?? this.#read(id);
    if (known && beginOf(known.pid) === known.since) return known.pid;
    this.#known.delete(id);
    return undefined;
  }

  /** Looks through all processes for one whose id the runtime did not get to write down. */
  search(id: string): number | undefined {
    const found = this.of(id);
    if (found !== undefined || !existsSync(join(this.#boxes, id))) return found;
    const pid = readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .find((one) => isFirst(one) && this.#belongs(one, id));
    return pid === undefined ? undefined : this.#keep(id, pid)?.pid;
  }

  /** To be called when the namespace is gone. */
  forget(id: string): void {
    this.#known.delete(id);
    rmSync(this.pidFile(id), { force: true });
  }

  #read(id: string): FirstProcess | undefined {
    try {
      const pid = Number.parseInt(readFileSync(this.pidFile(id), "latin1"), 10);
      return this.#belongs(pid, id) ? this.#keep(id, pid) : undefined;
    } catch {
      return undefined;
    }
  }

  #keep(id: string, pid: number): FirstProcess | undefined {
    const since = beginOf(pid);
    if (since === undefined) return undefined;
    const first = { pid, since };
    this.#known.set(id, first);
    return first;
  }

  /** The kernel tells in the list of mounts where a mounted file lies on its own filesystem. */
  #belongs(pid: number, id: string): boolean {
    const box = `${this.#boxes.split("/").slice(-2).join("/")}/${id}/`;
    try {
      return readFileSync(`/proc/${pid}/mountinfo`, "latin1")
        .split("\n")
        .some((line) => line.split(" ")[3]?.includes(`/${box}`));
    } catch {
      return false;
    }
  }
}

/** Undefined for a process that has ended or is ending. */
function beginOf(pid: number): string | undefined {
  try {
    return isAlive(pid) ? statFields(pid)[19] : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a process is the first one of a process id namespace. */
function isFirst(pid: number): boolean {
  try {
    return /^NSpid:.*\s1$/m.test(readFileSync(`/proc/${pid}/status`, "latin1"));
  } catch {
    return false;
  }
}
