import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { PreparedSpec } from "../packages/server/src/sandboxes/driver.ts";
import { installationGroup } from "../packages/server/src/sandboxes/drivers/oci/cgroups.ts";
import { processConfig, runtimeConfig } from "../packages/server/src/sandboxes/drivers/oci/config.ts";
import { inspectHost } from "../packages/server/src/sandboxes/drivers/oci/host.ts";
import { sandboxIdBase } from "../packages/server/src/sandboxes/drivers/oci/id-base.ts";
import type { OciDriver } from "../packages/server/src/sandboxes/drivers/oci/oci-driver.ts";
import { volatileOf } from "../packages/server/src/sandboxes/drivers/oci/testing.ts";
import type { TimedShell } from "./timed-shell.ts";

/**
 * The floor of sandboxes: the runtime's own command line on bundles that are there already, with the configuration of the driver's sandboxes
 * (same limits, namespaces, filter and mounts of the host) on a plain folder as root, and with its state on the same tmpfs.
 */
export class BareRuntime {
  readonly #command: string;
  readonly #group: string;
  readonly #bundles: string;
  readonly #config: (id: string) => object;
  readonly #shell: TimedShell;
  readonly #running = new Set<string>();

  /** `model` is a running `host` sandbox of the driver, which keeps its files in `dir`. */
  constructor(driver: OciDriver, dir: string, shell: TimedShell, model: { id: string; spec: PreparedSpec }) {
    const state = join(volatileOf(dir), "bare");
    this.#group = installationGroup(dir);
    this.#bundles = join(dir, "bare");
    this.#shell = shell;
    this.#command = `${driver.runtime.path} --root ${state}`;
    for (const folder of [state, this.#bundles]) mkdirSync(folder);
    chmodSync(this.#bundles, 0o711);
    const layer = readdirSync(join(dir, "layers")).find((name) => name.startsWith("h"))!;
    const rootfs = join(this.#bundles, "root");
    execFileSync("cp", ["-a", join(dir, "layers", layer), rootfs]);
    const host = inspectHost();
    this.#config = (id) =>
      runtimeConfig({
        id,
        spec: model.spec,
        rootfs,
        idBase: sandboxIdBase(),
        cgroupsPath: `${this.#group}/${id}`,
        init: host.init,
        binds: host.binds,
        seccomp: compiledFilter(dir),
        openFiles: host.openFiles,
      });
    const exec = processConfig(model.spec, { argv: ["echo", "ready"], cwd: "/" }, host.openFiles);
    writeFileSync(join(this.#bundles, "exec.json"), JSON.stringify(exec));
    writeFileSync(join(this.#bundles, "true.json"), JSON.stringify({ ...exec, args: ["true"] }));
  }

  /** Makes the bundle of a container, which is not part of any measurement. */
  prepare(id: string): void {
    const bundle = join(this.#bundles, id);
    mkdirSync(bundle);
    writeFileSync(join(bundle, "config.json"), JSON.stringify(this.#config(id)));
  }

  /** `run --detach`; ms. */
  async run(id: string): Promise<number> {
    this.#running.add(id);
    return this.#shell.time(this.#runText(id));
  }

  /** `run --detach` and `exec`, to the first output; ms. */
  async runToOutput(id: string): Promise<number> {
    this.#running.add(id);
    const exec = `read -r line < <(exec ${this.#command} exec --process ${this.#bundles}/exec.json ${id}); [ "$line" = ready ]`;
    return this.#shell.time(`${this.#runText(id)} && ${exec}`);
  }

  /** `exec` of `true` in a running one; ms. */
  async execTrue(id: string): Promise<number> {
    return this.#shell.time(`${this.#command} exec --process ${this.#bundles}/true.json ${id}`);
  }

  /** Ends the containers that were run; gives ms of each. */
  async end(): Promise<number[]> {
    const took: number[] = [];
    for (const id of this.#running) took.push(await this.#shell.time(`${this.#command} delete --force ${id}`));
    this.#running.clear();
    return took;
  }

  #runText(id: string): string {
    return `${this.#command} run --detach --bundle ${this.#bundles}/${id} ${id}`;
  }
}

/** The filter that the driver has had compiled. */
function compiledFilter(dir: string): { compiled: string } {
  const name = readdirSync(dir).find((entry) => entry.endsWith(".bpf"));
  if (name === undefined) throw new Error("The floors need crun; install it with `apt-get install crun`.");
  return { compiled: readFileSync(join(dir, name), "latin1") };
}
