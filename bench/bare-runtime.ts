import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { getSandboxIdBase, idRangeSize } from "@sandpiper/sandbox/drivers/common/uid-range";
import { getRuntimeDir } from "@sandpiper/sandbox/test/support/oci";
import type { BenchService } from "./sandbox-service.ts";
import type { TimedShell } from "./timed-shell.ts";

/** As much of an OCI runtime configuration as is changed here. */
interface Configuration {
  root: { path: string };
  process: object;
  mounts: { source?: string }[];
  linux: { cgroupsPath: string; namespaces: { type: string }[] };
}

/**
 * The floor of sandboxes: crun's command line on prepared bundles with the driver's configuration
 * (limits, namespaces, filter, host mounts), a plain folder as root and state on the same tmpfs.
 */
export class BareRuntime {
  readonly #shell: TimedShell;
  readonly #command: string;
  readonly #bundles: string;
  readonly #model: Configuration;
  readonly #running = new Set<string>();

  /** `model` is a running `host` sandbox of the service. */
  constructor({ driver, dir, spec }: BenchService, shell: TimedShell, model: string) {
    if (driver.runtime.kind !== "crun")
      throw new Error("The floors are those of crun: install it, and unset SANDPIPER_RUNTIME.");
    const volatile = getRuntimeDir(dir);
    const state = join(volatile, "bare");
    this.#bundles = join(dir, "bare");
    this.#shell = shell;
    this.#command = `${driver.runtime.path} --root ${state}`;
    for (const folder of [state, this.#bundles]) mkdirSync(folder);
    chmodSync(this.#bundles, 0o711);
    const layer = readdirSync(join(dir, "layers")).find((name) => name.startsWith("h"))!;
    const rootfs = join(this.#bundles, "root");
    execFileSync("cp", ["-a", join(dir, "layers", layer), rootfs]);
    const config = JSON.parse(
      readFileSync(join(volatile, "state", model, "config.json"), "utf8"),
    ) as Configuration;
    const mounts = config.mounts.filter(
      ({ source }) => !source?.startsWith("/dev/shm/") && !source?.startsWith("/run/"),
    );
    // Every container gets a user namespace with the ids of the layer.
    const mapping = [{ containerID: 0, hostID: getSandboxIdBase(), size: idRangeSize }];
    const linux = {
      ...config.linux,
      namespaces: config.linux.namespaces.map(({ type }) => ({ type })),
      uidMappings: mapping,
      gidMappings: mapping,
    };
    this.#model = { ...config, root: { ...config.root, path: rootfs }, mounts, linux };
    const user = { uid: spec.user.uid, gid: spec.user.gid };
    for (const [name, args] of Object.entries({ echo: ["echo", "ready"], true: ["true"] }))
      writeFileSync(join(this.#bundles, `${name}.json`), JSON.stringify({ ...config.process, user, args }));
  }

  /** Control group of a container, as a path below the mount. */
  groupOf(id: string): string {
    return join(this.#model.linux.cgroupsPath, "..", id);
  }

  /** Makes the bundle of a container, which is not part of any measurement. */
  prepare(id: string): void {
    const bundle = join(this.#bundles, id);
    mkdirSync(bundle);
    const config = { ...this.#model, linux: { ...this.#model.linux, cgroupsPath: this.groupOf(id) } };
    writeFileSync(join(bundle, "config.json"), JSON.stringify(config));
  }

  /** `run --detach`; ms. */
  async run(id: string): Promise<number> {
    this.#running.add(id);
    return this.#shell.time(this.#runText(id));
  }

  /** `run --detach` and `exec`, to the first output; ms. */
  async runToOutput(id: string): Promise<number> {
    this.#running.add(id);
    // `run` returns before the first process has started its program; until then commands may be
    // refused.
    const exec = `read -r line < <(exec ${this.#command} exec --process ${this.#bundles}/echo.json ${id})`;
    const ready = `for try in {1..50}; do ${exec} && break; done; [ "$line" = ready ]`;
    return this.#shell.time(`${this.#runText(id)} && { ${ready}; }`);
  }

  /** `exec` of `true` in a running one; ms. */
  async execTrue(id: string): Promise<number> {
    return this.#shell.time(`${this.#command} exec --process ${this.#bundles}/true.json ${id}`);
  }

  /** Ends the containers; returns ms of each. */
  async end(): Promise<number[]> {
    const took: number[] = [];
    for (const id of this.#running)
      took.push(await this.#shell.time(`${this.#command} delete --force ${id}`));
    this.#running.clear();
    return took;
  }

  #runText(id: string): string {
    return `${this.#command} run --detach --bundle ${this.#bundles}/${id} ${id}`;
  }
}
