import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type {
  DriverSandbox,
  ExecRequest,
  PreparedSpec,
  PrepareOptions,
  SandboxDriver,
  SandboxFile,
  SandboxProcess,
  SandboxSpec,
  SandboxUsage,
  StartRequest,
} from "../../driver.ts";
import { insideFolder } from "../common/folders.ts";
import { inspectHost } from "../common/host.ts";
import { connectInside, type IsMember, Listeners, listenInside } from "../common/ports.ts";
import { processGroups } from "./cgroup/groups.ts";
import type { ProcessGroups } from "./cgroup/process-group.ts";
import { Containers } from "./container/containers.ts";
import { Executor } from "./container/exec.ts";
import { processRules } from "./container/rlimits.ts";
import { findRuntime, type Runtime } from "./container/runtime.ts";
import { stopGroup } from "./container/stop.ts";
import { ImageStore } from "./images/image-store.ts";
import { prepareSpec } from "./images/prepare-spec.ts";
import { endStrayStarts } from "./launch/orphaned-starts.ts";
import { type SeccompFilter, seccompFilter, type Trial } from "./launch/seccomp-filter.ts";
import { unnamedBytes } from "./storage/deleted-open-files.ts";
import { DiskUsage } from "./storage/disk-usage.ts";
import type { SandboxRecord } from "./storage/records.ts";
import { volatileFolder } from "./storage/runtime-dir.ts";
import { SandboxFiles } from "./storage/sandbox-files.ts";
import { rootless, sandboxIdBase } from "./storage/uid-range.ts";

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
  groups: ProcessGroups;
  files: SandboxFiles;
  containers: Containers;
  seccomp: SeccompFilter;
  executor: Executor;
}

const idPattern = /^[a-z0-9][a-z0-9-]{0,62}$/;

/**
 * Sandboxes as containers of an OCI runtime (crun or runc) on this machine, called by its command line.
 * Files are kept below `dir` (`sandbox-files.ts`), what runs in control groups and on a tmpfs (`containers.ts`); a later process finds both again.
 */
export class OciDriver implements SandboxDriver {
  readonly name = "oci";
  readonly #dir: string;
  readonly #wanted: string | undefined;
  readonly #logger: Logger | undefined;
  readonly #listeners = new Listeners();
  readonly #disk = new DiskUsage();
  readonly #images: ImageStore;
  /** Sandboxes of `open` itself. */
  readonly #trials = new Set<string>();
  #engine: Engine | undefined;

  constructor(options: OciDriverOptions) {
    this.#dir = options.dir;
    this.#wanted = options.runtime;
    this.#logger = options.logger;
    this.#images = new ImageStore({
      dir: join(options.dir, "images"),
      idBase: sandboxIdBase(),
      authFile: options.registryAuth,
      logger: options.logger,
    });
  }

  async open(): Promise<void> {
    if (this.#engine) return;
    mkdirSync(this.#dir, { recursive: true });
    chmodSync(this.#dir, 0o711);
    await this.#images.open();
    const runtime = await findRuntime(this.#wanted);
    if (rootless()) this.#logger?.warn({}, withoutGroups);
    const groups = processGroups(this.#dir);
    const rules = processRules();
    const volatile = volatileFolder(`${groups.name}-run`);
    const host = inspectHost();
    const hostMounts = [...host.binds.map(({ destination }) => destination), insideFolder];
    const files = new SandboxFiles({ dir: this.#dir, idBase: sandboxIdBase(), hostMounts });
    const containers = new Containers({
      ...{ runtime, host, groups, rules, volatile, layers: files.layers, idBase: sandboxIdBase() },
      imageLayer: (reference) => this.#images.layerOf(reference),
    });
    await endStrayStarts(containers.stateDir);
    const executor = new Executor({ runtime, words: containers.words, rules, installation: groups.name });
    const engine: Engine = { runtime, groups, files, containers, seccomp: { section: {} }, executor };
    this.#engine = engine;
    try {
      engine.seccomp = await seccompFilter({
        runtime,
        folder: this.#dir,
        start: (seccomp) => this.#trial({ ...engine, seccomp }),
      });
    } catch (error) {
      await this.close();
      throw error;
    }
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
    const { files, groups } = engine;
    const known = files.get(id);
    if (known && groups.of(id).state() !== "gone")
      throw new PlatformError("SandboxFailed", `The sandbox ${id} runs already.`);
    await this.#end(engine, id);
    try {
      const record = known ? files.renew(id, known, spec) : files.create(id, spec, request.snapshot);
      await this.#run(engine, id, record, { isNew: !known, files: request.files ?? [] });
    } catch (error) {
      // The files of a sandbox that ran before are its user's work and stay.
      if (known) await this.#end(engine, id);
      else await this.remove(id);
      throw error instanceof PlatformError
        ? error
        : new PlatformError("SandboxFailed", `The sandbox could not be started: ${errorText(error)}.`);
    }
  }

  async exec(id: string, command: ExecRequest): Promise<SandboxProcess> {
    const { files, containers, executor, groups } = this.#opened();
    const { spec } = this.#record(files, id);
    const folder = containers.execFolder(id);
    return executor.exec({ id, folder, spec, idBase: sandboxIdBase(), group: groups.of(id) }, command);
  }

  async pause(id: string): Promise<void> {
    await this.#freeze(id, true);
  }

  async resume(id: string): Promise<void> {
    await this.#freeze(id, false);
  }

  async stop(id: string): Promise<void> {
    const engine = this.#opened();
    const { files, groups } = engine;
    const { spec } = this.#record(files, id);
    await stopGroup(groups.of(id), spec.command === null);
    await this.#end(engine, id);
    files.forget(id);
  }

  async remove(id: string): Promise<void> {
    const engine = this.#opened();
    if (!idPattern.test(id)) return;
    await this.#end(engine, id);
    await engine.files.remove(id);
  }

  async prepare(spec: SandboxSpec, options?: PrepareOptions): Promise<PreparedSpec> {
    if (spec.root.kind === "folder" && rootless()) throw new PlatformError("SandboxSpecUnusable", noFolders);
    return prepareSpec(spec, { images: this.#images, dataDir: this.#dir }, options);
  }

  async snapshot(id: string, snapshotId: string): Promise<void> {
    const { files } = this.#opened();
    if (!idPattern.test(snapshotId))
      throw new PlatformError("SandboxFailed", `"${snapshotId}" cannot name a snapshot.`);
    await this.stop(id);
    files.snapshot(this.#record(files, id), id, snapshotId);
  }

  async removeSnapshot(snapshotId: string): Promise<void> {
    if (idPattern.test(snapshotId)) await this.#opened().files.removeSnapshot(snapshotId);
  }

  async snapshots(): Promise<string[]> {
    return this.#opened().files.snapshotIds();
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
    const group = this.#opened().groups.of(id);
    const pid = idPattern.test(id) && group.state() === "running" ? group.member() : undefined;
    if (pid === undefined)
      throw new PlatformError(
        "SandboxNotRunning",
        `The sandbox ${id} does not run; start or resume it first.`,
      );
    return { pid, isMember: (one) => group.has(one) };
  }

  async usage(id: string): Promise<SandboxUsage> {
    const { files, groups } = this.#opened();
    const { upper } = this.#record(files, id);
    const group = groups.of(id);
    const named = await this.#disk.measure(files.layers.path(upper));
    const unnamed = await unnamedBytes(group.members(), sandboxIdBase());
    return { ...group.usage(), diskBytes: named + unnamed };
  }

  async reap(known: { sandboxes: Set<string>; snapshots: Set<string> }): Promise<void> {
    const { files, containers, groups } = this.#opened();
    const traces = new Set([...files.ids(), ...containers.traces(), ...groups.names()]);
    // Asked again right before each removal: a sandbox may have been made meanwhile.
    for (const id of traces) if (!known.sandboxes.has(id) && !this.#trials.has(id)) await this.remove(id);
    for (const id of files.snapshotIds()) if (!known.snapshots.has(id)) await files.removeSnapshot(id);
    await files.collect();
    await this.#images.prune(files.images());
  }

  async list(): Promise<DriverSandbox[]> {
    const { files, groups } = this.#opened();
    const mayRun = groups.mayRun();
    return files.ids().map((id) => {
      const state = mayRun(id) ? groups.of(id).state() : "gone";
      return { id, state: state === "gone" ? "stopped" : state };
    });
  }

  async close(): Promise<void> {
    const engine = this.#engine;
    this.#engine = undefined;
    await this.#images.close();
    if (!engine) return;
    engine.executor.close();
    await engine.containers.close();
    if (engine.files.ids().length > 0) return;
    engine.groups.removeAll();
    engine.containers.removeFolder();
  }

  #opened(): Engine {
    if (!this.#engine) throw new PlatformError("SandboxFailed", "The sandbox driver is not open.");
    return this.#engine;
  }

  #record(files: SandboxFiles, id: string): SandboxRecord {
    const record = idPattern.test(id) ? files.get(id) : undefined;
    if (!record) throw new PlatformError("SandboxNotFound", `There is no sandbox ${id}.`);
    return record;
  }

  /** Starts a sandbox that does nothing, to see what the runtime makes of a filter. */
  async #trial(engine: Engine): Promise<Trial> {
    const id = `trial-${randomBytes(8).toString("hex")}`;
    this.#trials.add(id);
    try {
      await this.#run(engine, id, engine.files.create(id, trialSpec, undefined), { isNew: true, files: [] });
      return engine.containers.filterOf(id);
    } finally {
      await this.remove(id);
      this.#trials.delete(id);
    }
  }

  async #run(
    engine: Engine,
    id: string,
    record: SandboxRecord,
    added: { isNew: boolean; files: SandboxFile[] },
  ): Promise<void> {
    const { containers, executor, seccomp } = engine;
    await containers.start(id, { record, seccomp, binds: executor.binds(id), ...added });
  }

  async #freeze(id: string, frozen: boolean): Promise<void> {
    const { files, groups } = this.#opened();
    this.#record(files, id);
    const group = groups.of(id);
    if (group.state() === "gone")
      throw new PlatformError("SandboxNotRunning", `The sandbox ${id} is not running.`);
    if (await group.setFrozen(frozen)) return;
    throw new PlatformError(
      "SandboxFailed",
      `The processes of the sandbox ${id} do not ${frozen ? "freeze" : "go on"}.`,
    );
  }

  /** Ends the processes, if there are any. The files stay. */
  async #end(engine: Engine, id: string): Promise<void> {
    this.#listeners.close(id);
    await engine.containers.end(id);
    engine.executor.drop(id);
  }
}

const withoutGroups =
  "This server may not make control groups: memory and processes are limited for each process and user of a sandbox, CPUs are not.";

/** Only the machine's root may show the owners of files as others. */
const noFolders = "A folder as root needs a server that runs as root; use an image instead.";

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
