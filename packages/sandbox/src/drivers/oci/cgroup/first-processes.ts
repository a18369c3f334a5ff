import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { getStartTime, isNamespaceInit, listPids } from "../../common/processes.ts";

interface FirstProcess {
  pid: number;
  /** Start time in clock ticks; a later process with the same id has another one. */
  startTime: string;
}

/**
 * The first processes of sandboxes, which live as long as their process id namespaces. The runtime
 * writes their ids into `folder`.
 */
export class FirstProcesses {
  readonly #folder: string;
  readonly #boxes: string;
  readonly #known = new Map<string, FirstProcess>();

  /** Every sandbox, and nothing else, has a mount from below `boxes/<id>/`. */
  constructor(folder: string, boxes: string) {
    this.#folder = folder;
    this.#boxes = boxes;
  }

  pidFile(id: string): string {
    return join(this.#folder, `${id}.pid`);
  }

  /** Undefined when the process has ended. */
  get(id: string): number | undefined {
    const known = this.#known.get(id);
    if (known && getStartTime(known.pid) === known.startTime) return known.pid;
    this.#known.delete(id);
    // Another server may have started the sandbox again.
    return this.#read(id)?.pid;
  }

  /** Like `get`, and looks through all processes when the runtime did not write the pid file. */
  search(id: string): number | undefined {
    const found = this.get(id);
    if (found !== undefined || !existsSync(join(this.#boxes, id))) return found;
    const pid = listPids().find((one) => isNamespaceInit(one) && this.#belongsTo(one, id));
    return pid === undefined ? undefined : this.#keep(id, pid)?.pid;
  }

  /** Called when the namespace is gone. */
  forget(id: string): void {
    this.#known.delete(id);
    rmSync(this.pidFile(id), { force: true });
  }

  #read(id: string): FirstProcess | undefined {
    try {
      const pid = Number.parseInt(readFileSync(this.pidFile(id), "latin1"), 10);
      return this.#belongsTo(pid, id) ? this.#keep(id, pid) : undefined;
    } catch {
      return undefined;
    }
  }

  #keep(id: string, pid: number): FirstProcess | undefined {
    const time = getStartTime(pid);
    if (time === undefined) return undefined;
    const first = { pid, startTime: time };
    this.#known.set(id, first);
    return first;
  }

  /** The kernel's list of mounts shows the path of a mounted file on its own filesystem. */
  #belongsTo(pid: number, id: string): boolean {
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
