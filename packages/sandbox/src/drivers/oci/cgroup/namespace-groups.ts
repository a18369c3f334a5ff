import { mkdirSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { FirstProcesses } from "../container/first-process.ts";
import type { Runtime } from "../container/runtime.ts";
import { volatileFolder } from "../storage/runtime-dir.ts";
import { installationGroup } from "./cgroups.ts";
import { NamespaceGroup } from "./namespace-group.ts";
import type { ProcessGroup, ProcessGroups } from "./process-group.ts";

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

  runtimeWords(kind: Runtime["kind"]): string[] {
    return kind === "crun" ? ["--cgroup-manager=disabled"] : ["--rootless=true"];
  }

  runWords(id: string): string[] {
    return ["--pid-file", this.#first.pidFile(id)];
  }

  section(): object {
    return {};
  }

  removeAll(): void {}
}
