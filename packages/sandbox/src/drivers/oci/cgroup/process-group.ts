import type { SandboxLimits } from "../../../driver.ts";
import type { Runtime } from "../container/runtime.ts";

/** What the processes of a sandbox use. */
export interface GroupUsage {
  memoryBytes: number;
  /** Since the group began. */
  cpuMs: number;
  pids: number;
}

/** The processes of one sandbox, wherever the kernel keeps account of them. Host process ids. */
export interface ProcessGroup {
  state(): "running" | "paused" | "gone";
  members(): number[];
  /** A member, the quickest to be found; undefined where there is none. */
  member(): number | undefined;
  /** Whether a process is a member now. */
  has(pid: number): boolean;
  /** To be called for each process that was started in the group from outside, also for the first one. */
  admit(pid: number, limits: SandboxLimits): void;
  /** Freezes every process, or lets them go on, and resolves once that is so. Gives false when it does not get there or the group goes. */
  setFrozen(frozen: boolean): Promise<boolean>;
  /** Lets a frozen group go on without waiting for it. */
  thaw(): void;
  /** Kills every process, also of a frozen group, and waits until they are gone. Gives false when some are still there after `patienceMs`. */
  kill(patienceMs?: number): Promise<boolean>;
  /** Zeros for a group that is not there. */
  usage(): GroupUsage;
  /** Removes what is left of a group without processes. */
  remove(): void;
}

/** The groups of an installation's sandboxes. */
export interface ProcessGroups {
  /** Tells installations on one machine apart. */
  readonly name: string;
  of(id: string): ProcessGroup;
  /** Names of all groups that something is left of. */
  names(): string[];
  /** Whether a group may have processes: a quick look. */
  mayRun(): (id: string) => boolean;
  /** To be called when a start begins. */
  expectStart(): void;
  /** argv words of every call of the runtime, before its command. */
  runtimeWords(kind: Runtime["kind"]): string[];
  /** argv words of the `run` of a sandbox. */
  runWords(id: string): string[];
  /** What the section `linux` of a runtime configuration says about the group and its limits. */
  section(id: string, limits: SandboxLimits): object;
  /** To be called when there is no sandbox left. */
  removeAll(): void;
}
