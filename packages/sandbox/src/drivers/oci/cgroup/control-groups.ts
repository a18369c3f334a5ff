import { basename } from "node:path";
import type { SandboxLimits } from "../../../driver.ts";
import {
  activeChildren,
  groupChildren,
  groupMembers,
  groupState,
  groupUsage,
  installationGroup,
  killGroup,
  removeGroup,
  setFrozen,
  thawGroup,
  wakeMoves,
} from "./cgroups.ts";
import type { GroupUsage, ProcessGroup, ProcessGroups } from "./process-group.ts";

/** Process groups as control groups, which the runtime makes: one for each sandbox, below that of the installation. */
export class ControlGroups implements ProcessGroups {
  readonly name: string;
  readonly #path: string;
  #waking: Promise<void> | undefined;

  /** `dir` is the installation's folder, which exists. */
  constructor(dir: string) {
    this.#path = installationGroup(dir);
    this.name = basename(this.#path);
  }

  of(id: string): ProcessGroup {
    return new ControlGroup(this.#pathOf(id));
  }

  names(): string[] {
    return groupChildren(this.#path);
  }

  mayRun(): (id: string) => boolean {
    const active = activeChildren(this.#path);
    return (id) => active.has(id);
  }

  expectStart(): void {
    this.#waking ??= wakeMoves().finally(() => {
      this.#waking = undefined;
    });
  }

  runtimeWords(): string[] {
    return [];
  }

  runWords(): string[] {
    return [];
  }

  section(id: string, { memoryBytes, pids, cpus }: SandboxLimits): object {
    return {
      cgroupsPath: this.#pathOf(id),
      resources: {
        devices: [{ allow: false, access: "rwm" }],
        memory: { limit: memoryBytes, swap: memoryBytes },
        pids: { limit: pids },
        cpu: { quota: Math.max(1_000, Math.round(cpus * 100_000)), period: 100_000 },
      },
    };
  }

  removeAll(): void {
    removeGroup(this.#path);
  }

  #pathOf(id: string): string {
    return `${this.#path}/${id}`;
  }
}

class ControlGroup implements ProcessGroup {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  state(): "running" | "paused" | "gone" {
    return groupState(this.#path);
  }

  members(): number[] {
    return groupMembers(this.#path);
  }

  member(): number | undefined {
    return groupMembers(this.#path)[0];
  }

  has(pid: number): boolean {
    return groupMembers(this.#path).includes(pid);
  }

  admit(): void {}

  setFrozen(frozen: boolean): Promise<boolean> {
    return setFrozen(this.#path, frozen);
  }

  thaw(): void {
    thawGroup(this.#path);
  }

  kill(patienceMs?: number): Promise<boolean> {
    return killGroup(this.#path, patienceMs);
  }

  usage(): GroupUsage {
    return groupUsage(this.#path);
  }

  remove(): void {
    removeGroup(this.#path);
  }
}
