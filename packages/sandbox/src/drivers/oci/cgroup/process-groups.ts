import type { SandboxLimits } from "../../../driver.ts";

/** Resource usage of a sandbox's processes. */
export interface GroupUsage {
  memoryBytes: number;
  /** Since the group started. */
  cpuMs: number;
  pids: number;
}

/** The processes of one sandbox, however the kernel groups them, by their host ids. */
export interface ProcessGroup {
  state(): "running" | "paused" | "gone";
  members(): number[];
  /** The member that is found fastest; undefined when the group has none. */
  member(): number | undefined;
  has(pid: number): boolean;
  /** False when each process is limited only once it runs, and could start others before. */
  readonly carriesLimits: boolean;
  /** Applies the limits to a process that was started in the group from outside. */
  admit(pid: number, limits: SandboxLimits): void;
  /** Freezes or resumes every process. False when it does not succeed in time or the group ends. */
  setFrozen(frozen: boolean): Promise<boolean>;
  /** Resumes a frozen group without waiting for it. */
  thaw(): void;
  /**
   * Kills every process, frozen ones too. False when some are left after some seconds. Calls
   * `check` before each attempt, and throws what it throws.
   */
  kill(check?: () => void): Promise<boolean>;
  /** Zeros when the group does not exist. */
  usage(): GroupUsage;
  /** Removes what is left of a group without processes. */
  remove(): void;
}

/** The groups of an installation's sandboxes. */
export interface ProcessGroups {
  /** Distinguishes installations on one machine. */
  readonly name: string;
  get(id: string): ProcessGroup;
  /** Names of all groups that have left anything behind. */
  names(): string[];
  /** A quick test whether a group may have processes. */
  mayRun(): (id: string) => boolean;
  /** Called when a start begins: prepares what the runtime does not set. */
  expectStart(id: string, limits: SandboxLimits): void;
  /** Arguments of every call of the runtime, before its command. */
  runtimeArgs(kind: "crun" | "runc"): string[];
  /** Arguments of the `run` of a sandbox. */
  runArgs(id: string): string[];
  /** Part of the section `linux` of a runtime configuration: the group and its limits. */
  linuxSection(id: string, limits: SandboxLimits): object;
  /** Called when no sandbox is left. */
  removeAll(): void;
}
