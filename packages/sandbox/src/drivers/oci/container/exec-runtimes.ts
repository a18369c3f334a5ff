import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { getStartTime, killFamily, sendSignal } from "../../common/processes.ts";
import type { FolderMembers } from "../../common/sharing/folder-members.ts";

/** Time for the runtimes of ended commands to end by themselves, ms. */
const graceMs = 200;
const killTimeoutMs = 5_000;

interface NotedRuntime {
  /** Path of the note. */
  path: string;
  id: string;
  pid: number;
  startTime: string;
}

/**
 * Notes the runtime of each running command, which waits for the end of the command: files
 * `<folder>/<member>/<sandbox>.<process id>.<start time>`. A later process that gets the same
 * process id has another start time.
 */
export class ExecRuntimes {
  readonly #folder: string;
  readonly #members: FolderMembers;

  /** `folder` is on a tmpfs. This process is a member. */
  constructor(folder: string, members: FolderMembers) {
    this.#folder = folder;
    this.#members = members;
    mkdirSync(join(folder, members.name), { recursive: true, mode: 0o700 });
  }

  /** Notes a new runtime. Returns a function that is called when the runtime has ended. */
  note(id: string, pid: number): () => void {
    const startTime = getStartTime(pid);
    if (startTime === undefined) return () => {};
    const path = join(this.#folder, this.#members.name, `${id}.${pid}.${startTime}`);
    writeFileSync(path, "", { mode: 0o600 });
    return () => rmSync(path, { force: true });
  }

  /** Kills the runtimes that ended members have left. Their commands go on. */
  endLeft(): void {
    for (const member of readdirSync(this.#folder)) {
      if (this.#members.isLiving(member)) continue;
      for (const runtime of this.#list(member)) if (isSame(runtime)) sendSignal(runtime.pid, "SIGKILL");
      rmSync(join(this.#folder, member), { recursive: true, force: true });
    }
  }

  /**
   * Waits until the runtimes of a sandbox without processes have ended, and kills those that do not
   * end: one that has not started its command yet would start it in the next container of the
   * sandbox.
   */
  async endOf(id: string): Promise<void> {
    const end = performance.now() + graceMs;
    for (;;) {
      const left = readdirSync(this.#folder)
        .flatMap((member) => this.#list(member))
        .filter((runtime) => runtime.id === id && isSame(runtime));
      const late = performance.now() - end;
      if (left.length === 0 || late > killTimeoutMs) return;
      if (late > 0) {
        killFamily(left.map(({ pid }) => pid));
      }
      await delay(1);
    }
  }

  #list(member: string): NotedRuntime[] {
    const folder = join(this.#folder, member);
    return readNames(folder).map((name) => {
      const [id, pid, startTime] = name.split(".") as [string, string, string];
      return { path: join(folder, name), id, pid: Number(pid), startTime };
    });
  }
}

function isSame({ pid, startTime }: NotedRuntime): boolean {
  return getStartTime(pid) === startTime;
}

/** None when another process has removed the folder. */
function readNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
