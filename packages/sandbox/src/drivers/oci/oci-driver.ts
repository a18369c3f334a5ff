import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type {
  DriverSandbox,
  ExecRequest,
  FileBounds,
  KnownIds,
  PreparedSpec,
  PrepareOptions,
  SandboxDriver,
  SandboxProcess,
  SandboxSpec,
  SandboxUsage,
  StartRequest,
  UncountedBounds,
} from "../../driver.ts";
import { raiseOomScores } from "../../kernel/oom-score.ts";
import type { Registries } from "../../specs/registries.ts";
import { insideFolder } from "../common/busybox.ts";
import { idPattern } from "../common/commands.ts";
import { DiskUsage, unbounded } from "../common/disk-usage.ts";
import { inspectHost } from "../common/host.ts";
import { measureKernelMemory, measureMemoryFiles } from "../common/kernel-memory.ts";
import { FolderLock } from "../common/sharing/folder-lock.ts";
import { FolderMembers } from "../common/sharing/folder-members.ts";
import { Listeners } from "../common/sockets/listeners.ts";
import { connectInside, type IsMember, listenInside } from "../common/sockets/ports.ts";
import { getSandboxIdBase, isRootless } from "../common/uid-range.ts";
import { Cgroups } from "./cgroup/cgroups.ts";
import { NamespaceGroups } from "./cgroup/namespace-processes.ts";
import type { ProcessGroups } from "./cgroup/process-groups.ts";
import { OciContainers } from "./container/containers.ts";
import { Executor } from "./container/exec.ts";
import { Lifecycle } from "./container/lifecycle.ts";
import { type ProcessLimits, readProcessLimits } from "./container/rlimits.ts";
import { findRuntime, type Runtime } from "./container/runtime.ts";
import { ImageStore } from "./images/image-store.ts";
import { prepareSpec } from "./images/prepare-spec.ts";
import { prepareSeccompFilter, type SeccompFilter } from "./launch/seccomp-filter.ts";
import { trialPattern } from "./launch/trial-spec.ts";
import { Turns } from "./launch/turns.ts";
import { deletedOpenBytes } from "./storage/deleted-files.ts";
import { OciPortableFiles } from "./storage/portable-files.ts";
import type { StoredSandbox } from "./storage/records.ts";
import { openRuntimeDir } from "./storage/runtime-dir.ts";
import { SandboxFiles } from "./storage/sandbox-files.ts";

export interface OciDriverOptions {
  /**
   * Folder of this installation's sandboxes. The driver creates it when it is missing. Several
   * processes may have it open, if only one process at a time works with a sandbox.
   */
  dir: string;
  /** Name or path of the OCI runtime; undefined: crun, else runc. */
  runtime?: string | undefined;
  /** File with the credentials for image registries; undefined: the default of skopeo. */
  registryAuth?: string | undefined;
  /** Where images come from; default: public registries. */
  registries?: Registries | undefined;
  /** Bytes of an unpacked image; 0: no limit. */
  maxImageBytes?: number | undefined;
  logger?: Logger | undefined;
  /** Shares the event loop with the rest of the server. */
  scheduler?: EventLoopScheduler | undefined;
}

/** Set by `open`. */
interface Engine {
  runtime: Runtime;
  limits: ProcessLimits;
  groups: ProcessGroups;
  files: SandboxFiles;
  disk: DiskUsage;
  containers: OciContainers;
  executor: Executor;
  lifecycle: Lifecycle;
  seccomp: SeccompFilter;
}

/**
 * Sandboxes as containers of an OCI runtime (crun or runc) of this machine, called as a program.
 * Files are kept below `dir` (`sandbox-files.ts`), running state in control groups and on a tmpfs
 * (`containers.ts`). Later processes and other processes with the same folder find both.
 */
export class OciDriver implements SandboxDriver {
  readonly name = "oci";
  readonly files: OciPortableFiles;
  readonly #dir: string;
  readonly #runtimeName: string | undefined;
  readonly #logger: Logger | undefined;
  readonly #scheduler: EventLoopScheduler;
  readonly #listeners = new Listeners();
  readonly #images: ImageStore;
  readonly #lock: FolderLock;
  /** The processes that have the folder open. */
  readonly #members: FolderMembers;
  #engine: Engine | undefined;

  constructor(options: OciDriverOptions) {
    this.#dir = options.dir;
    this.files = new OciPortableFiles(options.dir, () => this.#requireOpen().files);
    this.#runtimeName = options.runtime;
    this.#logger = options.logger;
    this.#scheduler = options.scheduler ?? new EventLoopScheduler();
    this.#lock = new FolderLock(join(options.dir, "lock"));
    this.#members = new FolderMembers(join(options.dir, "members"), this.#lock);
    this.#images = new ImageStore({
      dir: join(options.dir, "images"),
      idBase: getSandboxIdBase(),
      authFile: options.registryAuth,
      registries: options.registries,
      limits: options.maxImageBytes === undefined ? {} : { bytes: options.maxImageBytes },
      logger: options.logger,
      used: () => this.#engine?.files.images(),
    });
  }

  async open(): Promise<void> {
    if (this.#engine) return;
    mkdirSync(this.#dir, { recursive: true });
    chmodSync(this.#dir, 0o711);
    this.#members.join();
    try {
      await this.#openEngine();
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  async #openEngine(): Promise<void> {
    await this.#images.open();
    const runtime = await findRuntime(this.#runtimeName);
    if (isRootless()) this.#logger?.warn({}, noCgroupsWarning);
    const groups = isRootless() ? new NamespaceGroups(this.#dir) : new Cgroups(this.#dir);
    const limits = readProcessLimits();
    const idBase = getSandboxIdBase();
    const host = inspectHost();
    const hostMounts = [...host.binds.map(({ destination }) => destination), insideFolder];
    const shared = { members: this.#members, lock: this.#lock };
    const files = new SandboxFiles({ dir: this.#dir, idBase, hostMounts, ...shared });
    const runtimeDir = openRuntimeDir(`${groups.name}-run`);
    const containers = new OciContainers({
      ...{ runtime, runtimeDir, host, groups, limits, layers: files.layers },
      ...{ files: this.#dir, logger: this.#logger, ...shared },
      imageLayer: (reference) => this.#images.layerPath(reference),
    });
    const executor = new Executor({
      ...{ runtime, runtimeArgv: containers.argv, limits, installation: groups.name },
      turns: this.#scheduler.queue("commands"),
    });
    const disk = new DiskUsage(files.layers.folder);
    const turns = new Turns(join(runtimeDir, "turns"), this.#lock);
    const listeners = this.#listeners;
    const lifecycle = new Lifecycle({ files, containers, executor, groups, listeners, turns });
    await lifecycle.endInterrupted();
    containers.runtimes.endLeft();
    const base = { runtime, limits, groups, files, disk, containers, executor, lifecycle };
    const engine: Engine = { ...base, seccomp: { section: {} } };
    this.#engine = engine;
    engine.seccomp = await prepareSeccompFilter({
      runtime,
      folder: this.#dir,
      members: this.#members,
      start: (filter) => lifecycle.runTrial(filter),
    });
  }

  get shell(): string[] | undefined {
    return this.#engine?.executor.shell;
  }

  /** The runtime in use, for logs. Throws SandboxFailed before `open`. */
  get runtime(): Runtime {
    return this.#requireOpen().runtime;
  }

  async start(request: StartRequest): Promise<void> {
    const { lifecycle, seccomp } = this.#requireOpen();
    await lifecycle.start(request, seccomp);
  }

  async exec(id: string, command: ExecRequest): Promise<SandboxProcess> {
    const { files, containers, executor, groups } = this.#requireOpen();
    const { spec } = this.#getRecord(files, id);
    const place = containers.execPlace(id);
    const { base: idBase, start } = containers.ids(id);
    return executor.exec({ id, place, spec, idBase, start, group: groups.get(id) }, command);
  }

  async pause(id: string): Promise<void> {
    await this.#freeze(id, true);
  }

  async resume(id: string): Promise<void> {
    await this.#freeze(id, false);
  }

  async stop(id: string): Promise<void> {
    const { files, lifecycle } = this.#requireOpen();
    await lifecycle.stop(id, this.#getRecord(files, id));
  }

  async remove(id: string): Promise<void> {
    await this.#requireOpen().lifecycle.remove(id);
  }

  async prepare(spec: SandboxSpec, options?: PrepareOptions): Promise<PreparedSpec> {
    if (spec.root.kind === "folder" && isRootless()) throw new PlatformError("RootFolderNeedsRoot");
    return prepareSpec(spec, { images: this.#images, dataDir: this.#dir }, options);
  }

  async snapshot(id: string, snapshotId: string): Promise<void> {
    const { files, lifecycle } = this.#requireOpen();
    if (!idPattern.test(snapshotId)) throw new PlatformError("SnapshotIdInvalid", { id: snapshotId });
    const record = this.#getRecord(files, id);
    // On a full disk the processes keep running.
    const prepared = files.prepareSnapshot(record, id, snapshotId);
    try {
      await lifecycle.stop(id, record, prepared.commit);
    } catch (error) {
      prepared.discard();
      throw error;
    }
  }

  async removeSnapshot(snapshotId: string): Promise<void> {
    if (idPattern.test(snapshotId)) await this.#requireOpen().files.removeSnapshot(snapshotId);
  }

  async snapshots(): Promise<string[]> {
    return this.#requireOpen().files.snapshotIds();
  }

  async connect(id: string, port: number): Promise<Duplex> {
    const { pid, isMember } = this.#findMember(id);
    return connectInside(pid, port, isMember);
  }

  async listen(id: string, port: number, accept: (connection: Duplex) => void): Promise<{ close(): void }> {
    const { pid, isMember } = this.#findMember(id);
    return this.#listeners.add(id, await listenInside(pid, port, accept, { isMember }));
  }

  /** A process of a running sandbox, and a test for its membership. Throws SandboxNotRunning. */
  #findMember(id: string): { pid: number; isMember: IsMember } {
    const group = this.#requireOpen().groups.get(id);
    const pid = idPattern.test(id) && group.state() === "running" ? group.member() : undefined;
    if (pid === undefined) throw new PlatformError("SandboxInactive", { id });
    return { pid, isMember: (one) => group.has(one) };
  }

  async usage(id: string, bounds: FileBounds = unbounded): Promise<SandboxUsage> {
    const { files, groups, limits, disk } = this.#requireOpen();
    const { upper, layers } = this.#getRecord(files, id);
    const group = groups.get(id);
    const members = group.members();
    if (!limits.oomScoreIsFixed) raiseOomScores(members, limits.oomScore);
    const kept = await disk.measure(upper, layers, bounds);
    const deletedBytes = await deletedOpenBytes(members, getSandboxIdBase());
    return { ...group.usage(), ...kept, diskBytes: kept.diskBytes + deletedBytes };
  }

  async snapshotBytes(snapshots: readonly string[], sandboxes: readonly string[]): Promise<number> {
    const { files, disk } = this.#requireOpen();
    return disk.measureSealed(files.listSnapshotLayers(snapshots, sandboxes));
  }

  async uncountedBytes(id: string, { bytes, isScarce }: UncountedBounds): Promise<number> {
    const { files, groups, limits } = this.#requireOpen();
    const { spec } = this.#getRecord(files, id);
    const group = groups.get(id);
    const members = group.members();
    if (!limits.oomScoreIsFixed) raiseOomScores(members, limits.oomScore);
    const kernel = await measureKernelMemory(members, { bound: bytes, sockets: isRootless() });
    if (!isRootless() || !isScarce) return kernel;
    const held = group.usage().memoryBytes + (await measureMemoryFiles(members));
    return kernel + Math.max(0, held - spec.limits.memoryBytes);
  }

  async reap(known: KnownIds): Promise<void> {
    const { files, containers, groups, lifecycle } = this.#requireOpen();
    const traces = new Set([...files.ids(), ...containers.traces(), ...groups.names()]);
    const snapshots = files.snapshotIds();
    await known.refresh?.();
    // `known` is read right before each removal. It may lack new sandboxes of other processes.
    for (const id of traces) {
      if (known.sandboxes.has(id) || lifecycle.isTrial(id) || files.isOfOther("sandbox", id)) continue;
      await this.remove(id);
    }
    for (const id of snapshots)
      if (!known.snapshots.has(id) && !files.isOfOther("snapshot", id)) await files.removeSnapshot(id);
    await files.collectGarbage();
    await this.files.removeLeftovers();
    await this.#images.prune(files.images());
  }

  async list(): Promise<DriverSandbox[]> {
    const { files, groups, containers, lifecycle } = this.#requireOpen();
    await lifecycle.endInterrupted();
    containers.runtimes.endLeft();
    const mayRun = groups.mayRun();
    const ids = files.ids().filter((id) => !trialPattern.test(id));
    return ids.map((id) => {
      const state = mayRun(id) && !containers.isStarting(id) ? groups.get(id).state() : "gone";
      return { id, state: state === "gone" ? "stopped" : state };
    });
  }

  async close(): Promise<void> {
    const engine = this.#engine;
    this.#engine = undefined;
    await this.#images.close();
    engine?.executor.close();
    await engine?.containers.close();
    this.#members.leave(() => {
      engine?.executor.removeFolder();
      if (!engine || engine.files.ids().length > 0) return;
      engine.groups.removeAll();
      engine.containers.removeFolder();
    });
  }

  #requireOpen(): Engine {
    if (!this.#engine) throw new PlatformError("DriverNotOpen");
    return this.#engine;
  }

  #getRecord(files: SandboxFiles, id: string): StoredSandbox {
    const record = idPattern.test(id) ? files.get(id) : undefined;
    if (!record) throw new PlatformError("UnknownSandbox", { id });
    return record;
  }

  async #freeze(id: string, frozen: boolean): Promise<void> {
    const { files, groups } = this.#requireOpen();
    this.#getRecord(files, id);
    const group = groups.get(id);
    if (group.state() === "gone") throw new PlatformError("SandboxInactive", { id });
    if (!(await group.setFrozen(frozen)))
      throw new PlatformError(frozen ? "PauseFailed" : "ResumeFailed", { id });
  }
}

const noCgroupsWarning =
  "This server may not create control groups: memory and processes are limited for each process and user of a sandbox, CPUs are not.";
