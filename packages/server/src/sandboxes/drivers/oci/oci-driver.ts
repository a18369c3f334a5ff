import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { errorText, PlatformError } from "../../../errors.ts";
import type { Logger } from "../../../logger.ts";
import type {
  DriverSandbox,
  ExecRequest,
  PreparedSpec,
  PrepareOptions,
  SandboxDriver,
  SandboxProcess,
  SandboxSpec,
  SandboxUsage,
  StartRequest,
} from "../../driver.ts";
import { type Bundle, Bundles } from "./bundle.ts";
import { groupMembers, groupState, installationGroup, killGroup, removeGroup } from "./cgroups.ts";
import { runtimeConfig } from "./config.ts";
import { Executor } from "./exec.ts";
import { firstProcessRuns } from "./first-process.ts";
import { type Host, inspectHost } from "./host.ts";
import { sandboxIdBase } from "./id-base.ts";
import { ImageStore } from "./images/image-store.ts";
import { prepareSpec } from "./images/prepare-spec.ts";
import { connectInside, type IsMember, Listeners, listenInside } from "./ports.ts";
import { findRuntime, type Runtime, type RuntimeResult, runCommand } from "./runtime.ts";
import { type SeccompFilter, seccompFilter, type Trial } from "./seccomp-filter.ts";
import { endStrayStarts } from "./stray-starts.ts";

export interface OciDriverOptions {
  /** Folder of this installation's sandboxes; made when it is missing. */
  dir: string;
  /** Name or path of the OCI runtime; undefined: crun, else runc. */
  runtime?: string | undefined;
  /** File with the credentials for image registries; undefined: what skopeo finds itself. */
  registryAuth?: string | undefined;
  logger?: Logger | undefined;
}

/** What `open` found out. */
interface Engine {
  runtime: Runtime;
  host: Host;
  /** Control group of this installation. */
  group: string;
  seccomp: SeccompFilter;
  executor: Executor;
}

const commandTimeoutMs = 20_000;
const idPattern = /^[a-z0-9][a-z0-9-]{0,62}$/;

/**
 * Sandboxes as containers of an OCI runtime (crun or runc) on this machine, called by its command line.
 * Everything is kept below `dir` (`bundles/`, one folder a sandbox, and `state/`, the runtime's) and found there again by a later process.
 */
export class OciDriver implements SandboxDriver {
  readonly name = "oci";
  readonly #dir: string;
  readonly #wanted: string | undefined;
  readonly #bundles: Bundles;
  readonly #listeners = new Listeners();
  readonly #images: ImageStore;
  #engine: Engine | undefined;

  constructor(options: OciDriverOptions) {
    this.#dir = options.dir;
    this.#wanted = options.runtime;
    this.#bundles = new Bundles(options.dir);
    this.#images = new ImageStore({
      dir: join(options.dir, "images"),
      idBase: sandboxIdBase(),
      authFile: options.registryAuth,
      logger: options.logger,
    });
  }

  async open(): Promise<void> {
    mkdirSync(this.#dir, { recursive: true });
    chmodSync(this.#dir, 0o711);
    mkdirSync(join(this.#dir, "state"), { recursive: true, mode: 0o700 });
    await this.#images.open();
    const runtime = await findRuntime(this.#wanted);
    await endStrayStarts(join(this.#dir, "state"));
    const host = inspectHost(this.#dir);
    this.#bundles.open();
    const executor = new Executor({
      runtime,
      // runc goes through the root folder's path for every command, crun only at the start.
      prefix: runtime.kind === "runc" ? host.prefix : [],
      stateDir: join(this.#dir, "state"),
      openFiles: host.openFiles,
      group: installationGroup(this.#dir),
    });
    const engine: Engine = { runtime, host, group: installationGroup(this.#dir), seccomp: { section: {} }, executor };
    this.#engine = engine;
    engine.seccomp = await seccompFilter({ runtime, folder: this.#dir, start: (seccomp) => this.#trial({ ...engine, seccomp }) });
  }

  get shell(): string[] | undefined {
    return this.#engine?.executor.shell;
  }

  /** The runtime in use, for logs. Throws SandboxFailed before `open`. */
  get runtime(): Runtime {
    return this.#opened().runtime;
  }

  async start(request: StartRequest): Promise<void> {
    const engine = this.#opened();
    const { id, spec } = request;
    if (!idPattern.test(id)) throw new PlatformError("SandboxFailed", `"${id}" cannot name a sandbox.`);
    const known = this.#bundles.get(id);
    if (known && groupState(`${engine.group}/${id}`) !== "gone")
      throw new PlatformError("SandboxFailed", `The sandbox ${id} runs already.`);
    if (known || this.#bundles.exists(id)) await this.#deleteContainer(engine, id);
    if (!known && this.#bundles.exists(id)) await this.#removeFolder(id);
    try {
      const bundle = known ?? this.#bundles.create(id, spec);
      await this.#run(engine, bundle);
    } catch (error) {
      // The files of a sandbox that ran before are its user's work and stay.
      if (known) await this.#deleteContainer(engine, id);
      else await this.remove(id);
      throw error instanceof PlatformError
        ? error
        : new PlatformError("SandboxFailed", `The sandbox could not be started: ${errorText(error)}.`);
    }
  }

  async exec(id: string, command: ExecRequest): Promise<SandboxProcess> {
    const engine = this.#opened();
    const bundle = this.#bundles.get(id);
    if (!bundle) throw new PlatformError("SandboxNotFound", `There is no sandbox ${id}.`);
    const folder = join(bundle.folder, "exec");
    return engine.executor.exec(
      { id, folder, spec: bundle.spec, idBase: bundle.idBase, group: `${engine.group}/${id}` },
      command,
    );
  }

  async pause(id: string): Promise<void> {
    await this.#freeze(id, "pause", "paused");
  }

  async resume(id: string): Promise<void> {
    await this.#freeze(id, "resume", "running");
  }

  async remove(id: string): Promise<void> {
    const engine = this.#opened();
    if (!idPattern.test(id)) return;
    this.#listeners.close(id);
    await this.#deleteContainer(engine, id);
    await this.#removeFolder(id);
  }

  prepare(spec: SandboxSpec, options?: PrepareOptions): Promise<PreparedSpec> {
    return prepareSpec(spec, { images: this.#images, dataDir: this.#dir }, options);
  }

  async stop(_id: string): Promise<void> {
    throw new Error("not yet");
  }

  async snapshot(_id: string, _snapshotId: string): Promise<void> {
    throw new Error("not yet");
  }

  async removeSnapshot(_snapshotId: string): Promise<void> {
    throw new Error("not yet");
  }

  async snapshots(): Promise<string[]> {
    return [];
  }

  async connect(id: string, port: number): Promise<Duplex> {
    const { pid, isMember } = this.#member(id);
    return connectInside(pid, port, isMember);
  }

  async listen(id: string, port: number, accept: (connection: Duplex) => void): Promise<{ close(): void }> {
    const { pid, isMember } = this.#member(id);
    return this.#listeners.add(id, await listenInside(pid, port, accept, isMember));
  }

  /** A process of a running sandbox, and how to see whether it still is one. Throws SandboxNotRunning. */
  #member(id: string): { pid: number; isMember: IsMember } {
    const group = `${this.#opened().group}/${id}`;
    const [pid] = idPattern.test(id) && groupState(group) === "running" ? groupMembers(group) : [];
    if (pid === undefined)
      throw new PlatformError("SandboxNotRunning", `The sandbox ${id} does not run; start or resume it first.`);
    return { pid, isMember: (one) => groupMembers(group).includes(one) };
  }

  async usage(_id: string): Promise<SandboxUsage> {
    throw new Error("not yet");
  }

  async reap(_known: { sandboxes: Set<string>; snapshots: Set<string> }): Promise<void> {}

  async list(): Promise<DriverSandbox[]> {
    const engine = this.#opened();
    const ids = new Set([...this.#bundles.ids(), ...readdirSync(join(this.#dir, "state"))]);
    return [...ids]
      .filter((id) => idPattern.test(id))
      .map((id) => {
        const state = this.#bundles.get(id) ? groupState(`${engine.group}/${id}`) : "gone";
        return { id, state: state === "gone" ? "stopped" : state };
      });
  }

  async close(): Promise<void> {
    const engine = this.#engine;
    engine?.executor.close();
    this.#bundles.close();
    await this.#images.close();
    if (engine && this.#bundles.ids().length === 0) removeGroup(engine.group);
    this.#engine = undefined;
  }

  #opened(): Engine {
    if (!this.#engine) throw new PlatformError("SandboxFailed", "The sandbox driver is not open.");
    return this.#engine;
  }

  #command(engine: Engine, ...words: string[]): string[] {
    return [engine.runtime.path, "--root", join(this.#dir, "state"), ...words];
  }

  /** Starts a sandbox that does nothing, to see what the runtime makes of a filter. */
  async #trial(engine: Engine): Promise<Trial> {
    const id = `trial-${randomBytes(8).toString("hex")}`;
    try {
      await this.#run(engine, this.#bundles.create(id, trialSpec));
      const kept = join(this.#dir, "state", id, "seccomp.bpf");
      return {
        compiled: existsSync(kept) ? readFileSync(kept).toString("base64") : undefined,
        filtered: groupMembers(`${engine.group}/${id}`).some(isFiltered),
      };
    } finally {
      await this.remove(id);
    }
  }

  /** Starts the container of a bundle; its processes outlive this one. */
  async #run(engine: Engine, bundle: Bundle): Promise<void> {
    const { host, runtime } = engine;
    const root = host.visibleDir === null ? bundle.rootfs : join(host.visibleDir, "bundles", bundle.id, "rootfs");
    const config = runtimeConfig({
      id: bundle.id,
      spec: bundle.spec,
      rootfs: root,
      idBase: bundle.idBase,
      cgroupsPath: `${engine.group}/${bundle.id}`,
      init: host.init,
      binds: [...host.binds, ...engine.executor.binds(bundle.id)],
      seccomp: engine.seccomp,
      openFiles: host.openFiles,
    });
    writeFileSync(join(bundle.folder, "config.json"), JSON.stringify(config), { mode: 0o600 });
    const keyring = runtime.kind === "runc" ? ["--no-new-keyring"] : [];
    const argv = this.#command(engine, "run", "--detach", ...keyring, "--bundle", bundle.folder, bundle.id);
    const started = runCommand([...host.prefix, ...argv], {
      timeoutMs: commandTimeoutMs,
      stderrFile: join(bundle.folder, "runtime.log"),
    });
    // The runtime is at work elsewhere; this would otherwise be the next start's delay.
    if (bundle.spec !== trialSpec) this.#bundles.prepare(bundle.spec);
    const result = await started;
    if (result.code !== 0) throw failure("start", runtime, result);
    if (!(await firstProcessRuns(`${engine.group}/${bundle.id}`, runtime.path))) {
      throw failure("start", runtime, { ...result, reason: "its first process did not come up" });
    }
  }

  async #freeze(id: string, word: "pause" | "resume", wanted: "paused" | "running"): Promise<void> {
    const engine = this.#opened();
    const path = `${engine.group}/${id}`;
    const state = this.#bundles.get(id) ? groupState(path) : "gone";
    if (state === wanted) return;
    if (state === "gone") throw new PlatformError("SandboxNotRunning", `The sandbox ${id} is not running.`);
    const result = await runCommand(this.#command(engine, word, id), { timeoutMs: commandTimeoutMs });
    if (result.code !== 0 && groupState(path) !== wanted) throw failure(word, engine.runtime, result);
  }

  /** Kills the processes and forgets the container, if there is one. The files stay. */
  async #deleteContainer(engine: Engine, id: string): Promise<void> {
    const path = `${engine.group}/${id}`;
    engine.executor.drop(id);
    // Killed here first: runc waits in steps of 100 ms for what it kills itself.
    const dead = await killGroup(path);
    if (existsSync(join(this.#dir, "state", id)) || !dead) {
      const result = await runCommand(this.#command(engine, "delete", "--force", id), { timeoutMs: commandTimeoutMs });
      if (!(await killGroup(path))) throw failure("remove", engine.runtime, result);
    }
    removeGroup(path);
  }

  async #removeFolder(id: string): Promise<void> {
    const folder = this.#bundles.folderOf(id);
    if (existsSync(folder)) {
      // rm copes with names that are not UTF-8 and with any depth; the container is gone, so nothing changes below it.
      const result = await runCommand(["rm", "-rf", "--one-file-system", "--", folder], { timeoutMs: 600_000 });
      if (result.code !== 0)
        throw new PlatformError("SandboxFailed", `The files of the sandbox could not be removed: ${result.reason}.`);
    }
    this.#bundles.forget(id);
  }
}

const trialSpec: PreparedSpec = {
  network: { mode: "none", allow: [], credentials: [] },
  id: "trial",
  root: { kind: "host" },
  command: null,
  env: {},
  workingDir: "/workspace",
  user: { name: "agent", uid: 1000, gid: 1000, home: "/home/agent" },
  limits: { memoryBytes: 64 * 2 ** 20, pids: 16, cpus: 1, diskBytes: 2 ** 20 },
};

function isFiltered(pid: number): boolean {
  try {
    return /^Seccomp:\s+2$/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

function failure(what: string, runtime: Runtime, result: RuntimeResult): PlatformError {
  const reason = result.reason || `it ended with code ${result.code}`;
  return new PlatformError("SandboxFailed", `${runtime.kind} could not ${what} the sandbox: ${reason}.`);
}
