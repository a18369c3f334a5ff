import { mkdirSync, readdirSync } from "node:fs";
import { release } from "node:os";
import { basename, join } from "node:path";
import { type Limit, limitProcess } from "../../../kernel/limits.ts";
import type { SandboxLimits } from "../../driver.ts";
import { installationGroup } from "./cgroups.ts";
import { FirstProcesses } from "./first-process.ts";
import { NamespaceGroup } from "./namespace-group.ts";
import type { ProcessGroup, ProcessGroups } from "./process-group.ts";
import type { Runtime } from "./runtime.ts";
import { volatileFolder } from "./volatile-folder.ts";

/** Before Linux 5.14 the kernel counts the processes of all sandboxes together. */
const [major, minor] = release().split(".").map(Number);
const countsBySandbox = major! > 5 || (major === 5 && minor! >= 14);

/**
 * Process groups for a server that may not make control groups: the processes of a sandbox are those of its process id namespace. Limits for the
 * whole of them do not exist here, only those that a process can have.
 */
export class NamespaceGroups implements ProcessGroups {
  readonly name: string;
  readonly #folder: string;
  readonly #first: FirstProcesses;

  /** `dir` is the installation's folder, which exists. Throws SandboxFailed where there is no tmpfs. */
  constructor(dir: string) {
    this.name = basename(installationGroup(dir));
    const folder = volatileFolder(`${this.name}-run`);
    this.#folder = join(folder, "groups");
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    this.#first = new FirstProcesses(this.#folder, join(folder, "boxes"));
  }

  of(id: string): ProcessGroup {
    return new NamespaceGroup(id, this.#folder, this.#first);
  }

  names(): string[] {
    return [...new Set(readdirSync(this.#folder).map((name) => name.replace(/\.\w+$/, "")))];
  }

  mayRun(): (id: string) => boolean {
    return () => true;
  }

  expectStart(): void {}

  started(id: string, limits: SandboxLimits): void {
    const pid = this.#first.of(id);
    if (pid === undefined) return;
    for (const [name, most] of Object.entries(this.rlimits(limits))) limitProcess(pid, name as Limit, most);
  }

  runtimeWords(kind: Runtime["kind"]): string[] {
    return kind === "crun" ? ["--cgroup-manager=disabled"] : ["--rootless=true"];
  }

  runWords(id: string): string[] {
    return ["--pid-file", this.#first.pidFile(id)];
  }

  section(): object {
    return {};
  }

  /** What a process may have of memory is what the sandbox may have; processes are counted for each user of each sandbox. */
  rlimits({ memoryBytes, pids }: SandboxLimits): Partial<Record<Limit, number>> {
    return { RLIMIT_DATA: memoryBytes, ...(countsBySandbox && { RLIMIT_NPROC: pids }) };
  }

  removeAll(): void {}
}
