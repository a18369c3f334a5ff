import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import type { ContainerStats } from "dockerode";
import type {
  DriverSandbox,
  ExecRequest,
  FileBounds,
  FileUsage,
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
import { Registries } from "../../specs/registries.ts";
import { insideBusybox } from "../common/busybox.ts";
import { checkCommand, idPattern } from "../common/commands.ts";
import { toFencedArgv } from "../common/fence.ts";
import { loadInstallationId } from "../common/installation-id.ts";
import { sandboxOomScore } from "../common/isolation.ts";
import { isCgroupV2, measureKernelMemory } from "../common/kernel-memory.ts";
import { limitProcesses } from "../common/process-share.ts";
import { Listeners } from "../common/sockets/listeners.ts";
import { connectInside, listenInside } from "../common/sockets/ports.ts";
import { formatUser, labels } from "./container-options.ts";
import { DockerContainers, type InspectedContainer } from "./containers.ts";
import { type DockerHost, Engine, isOnThisMachine, type RefusalHandlers } from "./engine.ts";
import { parseEngineImage, toEngineName } from "./engine-image.ts";
import { execInContainer } from "./exec.ts";
import { Images } from "./images.ts";
import { injectAll, injectFiles } from "./injected-files.ts";
import { containerInitPath, findPrograms, type Program } from "./injected-programs.ts";
import { DirectSignaller, isMember, listGroup, ShellSignaller, type Signaller } from "./processes.ts";
import { DockerSnapshots } from "./snapshots.ts";
import { measureNameFiles, WrittenFiles } from "./written-files.ts";

export interface DockerDriverOptions {
  /** Folder for the id of this installation; created when it is missing. */
  dir: string;
  /** Undefined: DOCKER_HOST, else the default socket. */
  host?: DockerHost | undefined;
  /** As Docker's config.json; undefined: the files of `docker login` and `skopeo login`. */
  authFile?: string | undefined;
  /** Registries that the engine may ask; default: its own default. */
  registries?: Registries | undefined;
  /** Bytes of an image that the engine fetches for users; 0: no limit. */
  maxImageBytes?: number | undefined;
  /** Timeout for an ordinary request to the engine, ms. */
  timeoutMs?: number;
}

/** Set by `open`. */
interface Opened {
  containers: DockerContainers;
  images: Images;
  snapshots: DockerSnapshots;
  signaller: Signaller;
  /** True for root on the engine's machine. */
  isDirect: boolean;
  /** Programs that are copied, because they cannot be bound. */
  copies: Program[];
}

/** Immutable facts about a container that commands need. */
interface KnownContainer {
  container: string;
  user: string;
  workingDir: string;
}

const unbounded: FileBounds = { diskBytes: Number.MAX_SAFE_INTEGER, files: Number.MAX_SAFE_INTEGER };

/** Time for processes to end by themselves, ms. */
const graceMs = 1_000;

/** Sandboxes as containers of a Docker or Podman engine, which are found again by their labels. */
export class DockerDriver implements SandboxDriver {
  readonly name = "docker";
  readonly #options: DockerDriverOptions;
  readonly #engine: Engine;
  readonly #known = new Map<string, KnownContainer>();
  readonly #listeners = new Listeners();
  readonly #written = new WrittenFiles();
  #opened: Opened | undefined;
  #shell: string[] | undefined;

  constructor(options: DockerDriverOptions) {
    this.#options = options;
    this.#engine = new Engine(options.host, options.timeoutMs);
  }

  get shell(): string[] | undefined {
    return this.#shell;
  }

  async open(): Promise<void> {
    const info = await this.#engine.info();
    const programs = findPrograms();
    if (!programs) throw new PlatformError("DockerInitMissing");
    if (!info.SecurityOptions?.some((option) => /^name=seccomp(?!.*unconfined)/.test(option)))
      throw new PlatformError("DockerSeccompOff");
    const { dir, authFile, registries = new Registries(), maxImageBytes: maxBytes = 0 } = this.#options;
    const installation = loadInstallationId(dir);
    const local = isOnThisMachine(info);
    const direct = local && process.getuid?.() === 0;
    const binds = local ? programs : [];
    const hasBusybox = programs.some(({ destination }) => destination === insideBusybox);
    this.#shell = hasBusybox ? [insideBusybox, "sh"] : undefined;
    // An engine with systemd takes only a group that systemd made.
    const own = `/sandpiper-docker-${installation}`;
    const group = direct && info.CgroupDriver === "cgroupfs" && limitProcesses(own) ? own : undefined;
    const containers = new DockerContainers(this.#engine, { installation, binds, info, group });
    this.#opened = {
      containers,
      images: new Images(this.#engine, { installation, authFile, registries, maxBytes }),
      snapshots: new DockerSnapshots(this.#engine, installation),
      isDirect: direct,
      signaller: direct ? new DirectSignaller() : new ShellSignaller(this.#engine, this.#shell ?? ["sh"]),
      copies: local ? [] : programs,
    };
    for (const { Id } of await containers.list(`${labels.helper}=yes`)) await containers.remove(Id);
  }

  async prepare(spec: SandboxSpec, options: PrepareOptions = {}): Promise<PreparedSpec> {
    return await this.#requireOpen().images.prepare(spec, options);
  }

  async start(request: StartRequest): Promise<void> {
    const { containers, snapshots, copies } = this.#requireOpen();
    const { id, spec, snapshot } = request;
    if (!idPattern.test(id)) throw new PlatformError("SandboxIdInvalid", { id });
    const existing = await containers.inspect(id);
    if (existing?.State.Running) throw new PlatformError("SandboxAlreadyRunning", { id });
    this.#listeners.close(id);
    if (existing) {
      // It also starts when a file cannot be put there.
      await injectFiles(this.#engine, existing.Id, request).catch(() => {});
      return await containers.start(existing.Id);
    }
    const own = spec.root.kind === "image" ? toEngineName(parseEngineImage(spec.root.reference)) : "";
    const container = await containers.create(
      request,
      snapshot === undefined ? own : snapshots.imageName(snapshot),
    );
    try {
      await injectAll(this.#engine, container, request, copies);
      await containers.start(container);
    } catch (error) {
      await containers.remove(container).catch(() => {});
      throw error;
    }
    this.#known.set(id, { container, user: formatUser(spec), workingDir: spec.workingDir });
  }

  async exec(id: string, command: ExecRequest): Promise<SandboxProcess> {
    checkCommand(command);
    const { signaller } = this.#requireOpen();
    const known = this.#known.get(id) ?? (await this.#findContainer(id));
    const target = { engine: this.#engine, ...known, signaller, handlers: this.#refusals(id) };
    const argv = toFencedArgv(command, this.#shell ?? ["sh"]);
    return await execInContainer(target, { ...command, argv });
  }

  async pause(id: string): Promise<void> {
    const { Id, State } = await this.#inspect(id);
    if (State.Paused) return;
    if (!State.Running) throw new PlatformError("SandboxProcessesEnded", { id });
    const container = this.#engine.docker.getContainer(Id);
    const handlers = this.#refusals(id);
    // A concurrent call may have paused it.
    const conflict = (message: string) =>
      /already paused/i.test(message) ? undefined : handlers[409]!(message);
    await this.#engine.request("pause a sandbox", () => container.pause(), { ...handlers, 409: conflict });
  }

  async resume(id: string): Promise<void> {
    const { Id, State } = await this.#inspect(id);
    if (!State.Running) throw new PlatformError("SandboxProcessesEnded", { id });
    if (State.Paused) await this.#thaw(Id);
  }

  async stop(id: string): Promise<void> {
    const { containers, signaller } = this.#requireOpen();
    const info = await containers.inspect(id);
    if (!info?.State.Running) return;
    const container = this.#engine.docker.getContainer(info.Id);
    this.#listeners.close(id);
    if (info.State.Paused) await this.#thaw(info.Id);
    const init = { pid: info.State.Pid, onlyReaps: info.Path === containerInitPath };
    await signaller.terminateAll(info.Id, info.Config.Labels[labels.user] ?? "", init).catch(() => {});
    const end = Date.now() + graceMs;
    const pids = () => containers.stats(container).then(countPids, () => 0);
    // The init counts as one process.
    while (Date.now() < end && (await pids()) > (init.onlyReaps ? 1 : 0)) await delay(20);
    await this.#engine.request("stop a sandbox", () => container.kill(), { 404: () => {}, 409: () => {} });
    const ended = (abortSignal: AbortSignal) => container.wait({ condition: "not-running", abortSignal });
    await this.#engine.request("stop a sandbox", ended, { 404: () => {} });
  }

  async remove(id: string): Promise<void> {
    if (!idPattern.test(id)) return;
    this.#known.delete(id);
    this.#listeners.close(id);
    await this.#requireOpen().containers.removeSandbox(id);
  }

  async list(): Promise<DriverSandbox[]> {
    const containers = await this.#requireOpen().containers.list(labels.sandbox);
    return containers
      .filter(({ State }) => State !== "removing")
      .map(({ Labels, State }) => ({
        id: Labels[labels.sandbox]!,
        state: State === "running" ? "running" : State === "paused" ? "paused" : "stopped",
      }));
  }

  /**
   * The engine copies the written files into a new layer, which takes time by their size. The
   * sandbox is paused meanwhile.
   */
  async snapshot(id: string, snapshotId: string): Promise<void> {
    if (!idPattern.test(snapshotId)) throw new PlatformError("SnapshotIdInvalid", { id: snapshotId });
    const { Id } = await this.#inspect(id);
    await this.#requireOpen().snapshots.save(
      this.#engine.docker.getContainer(Id),
      snapshotId,
      this.#refusals(id),
    );
  }

  async removeSnapshot(snapshotId: string): Promise<void> {
    if (idPattern.test(snapshotId)) await this.#requireOpen().snapshots.remove(snapshotId);
  }

  async snapshots(): Promise<string[]> {
    return await this.#requireOpen().snapshots.list();
  }

  async connect(id: string, port: number): Promise<Duplex> {
    const { pid, isMember } = await this.#firstProcess(id);
    return await connectInside(pid, port, isMember);
  }

  async listen(id: string, port: number, accept: (connection: Duplex) => void): Promise<{ close(): void }> {
    const { pid, isMember, container } = await this.#firstProcess(id);
    const listener = await listenInside(pid, port, accept, { isMember });
    return this.#listeners.add(id, listener, (abortSignal, onEnd) => {
      const ended = this.#engine.docker
        .getContainer(container)
        .wait({ condition: "not-running", abortSignal });
      // Without its engine the sandbox may run on; its next change closes the listeners.
      ended.then(onEnd, () => {});
    });
  }

  async usage(id: string, bounds: FileBounds = unbounded): Promise<SandboxUsage> {
    const { Id, State, ...container } = await this.#inspect(id);
    const { isDirect } = this.#requireOpen();
    if (isDirect && State.Running) raiseOomScores(listGroup(State.Pid), sandboxOomScore);
    const written = isDirect ? await this.#written.measure(container, bounds) : undefined;
    const kept = written ?? (await this.#measureByEngine(id));
    if (!State.Running) return { ...kept, memoryBytes: 0, cpuMs: 0, pids: 0 };
    const stats = await this.#requireOpen().containers.stats(this.#engine.docker.getContainer(Id));
    const { usage = 0, stats: parts } = stats.memory_stats;
    // The kernel reclaims inactive file cache by itself.
    const cache = parts?.total_inactive_file ?? parts?.inactive_file ?? 0;
    return {
      ...kept,
      memoryBytes: Math.max(0, usage - cache),
      cpuMs: Math.round((stats.cpu_stats.cpu_usage?.total_usage ?? 0) / 1e6),
      pids: countPids(stats),
    };
  }

  /** The engine walks all files of the sandbox without a bound, and does not count them. */
  async #measureByEngine(id: string): Promise<FileUsage> {
    const inspected = await this.#inspect(id, true);
    const named = this.#requireOpen().isDirect ? measureNameFiles(inspected) : 0;
    return { diskBytes: (inspected.SizeRw ?? 0) + named, files: 0, isPartial: false };
  }

  async snapshotBytes(): Promise<number> {
    return 0;
  }

  async uncountedBytes(id: string, { bytes }: UncountedBounds): Promise<number> {
    if (!this.#requireOpen().isDirect) return 0;
    const { State } = await this.#inspect(id);
    if (!State.Running) return 0;
    const members = listGroup(State.Pid);
    raiseOomScores(members, sandboxOomScore);
    // Engines set no limit for buffers of sockets, which only control groups of version 2 count.
    return measureKernelMemory(members, { bound: bytes, sockets: !isCgroupV2() });
  }

  async reap(known: KnownIds): Promise<void> {
    const { snapshots } = this.#requireOpen();
    const [sandboxes, images] = [await this.list(), await snapshots.images()];
    await known.refresh?.();
    for (const { id } of sandboxes) if (!known.sandboxes.has(id)) await this.remove(id);
    await snapshots.reap(images, known.snapshots);
  }

  async close(): Promise<void> {
    this.#opened = undefined;
    this.#known.clear();
    this.#listeners.closeAll();
  }

  #requireOpen(): Opened {
    if (!this.#opened) throw new PlatformError("DriverNotOpen");
    return this.#opened;
  }

  async #inspect(id: string, size = false): Promise<InspectedContainer> {
    const info = idPattern.test(id) ? await this.#requireOpen().containers.inspect(id, size) : undefined;
    if (!info) throw new PlatformError("UnknownSandbox", { id });
    return info;
  }

  async #findContainer(id: string): Promise<KnownContainer> {
    const { Id, Config } = await this.#inspect(id);
    const known = {
      container: Id,
      user: Config.Labels[labels.user] ?? "",
      workingDir: Config.Labels[labels.workingDir] ?? "/",
    };
    this.#known.set(id, known);
    return known;
  }

  async #thaw(container: string): Promise<void> {
    const handle = this.#engine.docker.getContainer(container);
    // A concurrent call may have resumed or ended it.
    const conflict = (reason: string) => {
      if (!/not paused|not running/i.test(reason))
        throw new PlatformError("EngineRefused", { action: "resume the sandbox", reason });
    };
    await this.#engine.request("resume a sandbox", () => handle.unpause(), { 409: conflict, 500: conflict });
  }

  /** Errors for the engine's refusals that concern a sandbox. */
  #refusals(id: string): RefusalHandlers<never> {
    return {
      404: () => {
        this.#known.delete(id);
        throw new PlatformError("UnknownSandbox", { id });
      },
      409: (message) => {
        if (!/paused/i.test(message)) throw new PlatformError("SandboxProcessesEnded", { id });
        throw new PlatformError("SandboxPaused", { id });
      },
    };
  }

  /** The first process, if its id is valid on this machine. */
  async #firstProcess(
    id: string,
  ): Promise<{ pid: number; container: string; isMember: (pid: number) => boolean }> {
    const { Id, State } = await this.#inspect(id);
    if (!State.Running) throw new PlatformError("SandboxProcessesEnded", { id });
    if (!(this.#requireOpen().signaller instanceof DirectSignaller) || !isMember(State.Pid, Id))
      throw new PlatformError("DockerPortsUnavailable");
    return { pid: State.Pid, container: Id, isMember: (pid: number) => isMember(pid, Id) };
  }
}

function countPids(stats: ContainerStats): number {
  return stats.pids_stats?.current ?? 0;
}
