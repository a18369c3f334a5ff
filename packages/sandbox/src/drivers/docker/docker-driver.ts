import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import type { ContainerStats } from "dockerode";
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
import { connectInside, listenInside } from "../common/ports.ts";
import { labels } from "./container.ts";
import { Containers, type Inspected } from "./containers.ts";
import type { DockerHost } from "./docker-host.ts";
import { type Answers, Engine, isOnThisMachine } from "./engine.ts";
import { engineName, parseEngineImage } from "./engine-image.ts";
import { execInContainer } from "./exec.ts";
import { Images } from "./images.ts";
import { putAdditions, putFiles } from "./injected-files.ts";
import { installationId } from "./installation.ts";
import { Listeners } from "./listeners.ts";
import { belongsTo, DirectSignaller, InsideSignaller, type Signaller } from "./processes.ts";
import { seccompOption } from "./seccomp-option.ts";
import { Snapshots } from "./snapshots.ts";
import { findTools, initPath, shellOf, type Tool } from "./tools.ts";

export interface DockerDriverOptions {
  /** Folder for what the driver has to remember itself: the name of this installation. Made when it is missing. */
  dir: string;
  /** Undefined: by DOCKER_HOST, else the usual socket. */
  host?: DockerHost | undefined;
  /** Registry credentials in the format of Docker's config.json; undefined: where `docker login` and `skopeo login` write. */
  authFile?: string | undefined;
  /** Within which the engine answers an ordinary request, ms. */
  patienceMs?: number;
}

/** What `open` found out. */
interface Opened {
  containers: Containers;
  images: Images;
  snapshots: Snapshots;
  signaller: Signaller;
  /** Programs that cannot be bound into a container and are copied. */
  copies: Tool[];
}

/** What commands need to know of a container; it does not change while it exists. */
interface Known {
  container: string;
  user: string;
  workingDir: string;
}

const idPattern = /^[a-z0-9][a-z0-9-]{0,62}$/;
/** Longest wait for an orderly end of a sandbox's processes, ms. */
const stopMs = 1_000;

/** Sandboxes as containers of a Docker or Podman engine. Everything about them is found again by labels. */
export class DockerDriver implements SandboxDriver {
  readonly name = "docker";
  readonly #options: DockerDriverOptions;
  readonly #engine: Engine;
  readonly #known = new Map<string, Known>();
  readonly #listeners: Listeners;
  #opened: Opened | undefined;
  #shell: string[] | undefined;

  constructor(options: DockerDriverOptions) {
    this.#options = options;
    this.#engine = new Engine(options.host, options.patienceMs);
    this.#listeners = new Listeners(this.#engine.docker);
  }

  get shell(): string[] | undefined {
    return this.#shell;
  }

  async open(): Promise<void> {
    const info = await this.#engine.info();
    const tools = findTools();
    if (!tools)
      throw failed("The docker driver needs a static init: install it with `apt-get install catatonit`.");
    if (!info.SecurityOptions?.some((option) => /^name=seccomp(?!.*unconfined)/.test(option)))
      throw failed("The container engine filters no system calls: turn seccomp on in its configuration.");
    const installation = installationId(this.#options.dir);
    const local = isOnThisMachine(info);
    const direct = local && process.getuid?.() === 0;
    const binds = local ? tools : [];
    this.#shell = shellOf(tools);
    const containers = new Containers(this.#engine, { installation, binds, seccomp: seccompOption(), info });
    this.#opened = {
      containers,
      images: new Images(this.#engine, installation, this.#options.authFile),
      snapshots: new Snapshots(this.#engine, installation),
      signaller: direct ? new DirectSignaller() : new InsideSignaller(this.#engine, this.#shell ?? ["sh"]),
      copies: local ? [] : tools,
    };
    for (const { Id } of await containers.list(`${labels.helper}=yes`)) await containers.remove(Id);
  }

  async prepare(spec: SandboxSpec, options: PrepareOptions = {}): Promise<PreparedSpec> {
    return await this.#now().images.prepare(spec, options);
  }

  async start(request: StartRequest): Promise<void> {
    const { containers, snapshots, copies } = this.#now();
    const { id, spec, snapshot } = request;
    if (!idPattern.test(id)) throw failed(`"${id}" cannot name a sandbox.`);
    const existing = await containers.inspect(id);
    if (existing?.State.Running) throw failed(`The sandbox ${id} runs already.`);
    this.#listeners.close(id);
    if (existing) {
      // It starts without what cannot be put there.
      await putFiles(this.#engine, existing.Id, request.files ?? []).catch(() => {});
      return await containers.start(existing.Id);
    }
    const own = spec.root.kind === "image" ? engineName(parseEngineImage(spec.root.reference)) : "";
    const container = await containers.create(
      request,
      snapshot === undefined ? own : snapshots.imageOf(snapshot),
    );
    try {
      await putAdditions(this.#engine, container, request, copies);
      await containers.start(container);
    } catch (error) {
      await containers.remove(container).catch(() => {});
      throw error;
    }
    this.#known.set(id, {
      container,
      user: `${spec.user.uid}:${spec.user.gid}`,
      workingDir: spec.workingDir,
    });
  }

  async exec(id: string, command: ExecRequest): Promise<SandboxProcess> {
    const words = [...command.argv, command.cwd ?? "", ...Object.entries(command.env ?? {}).flat()];
    if (words.some((word) => word.includes("\0")))
      throw new PlatformError(
        "InvalidParameter",
        "Commands, folders and variables cannot hold a NUL character.",
      );
    if (!command.argv[0]) throw new PlatformError("InvalidParameter", "A command needs at least one word.");
    const { signaller } = this.#now();
    const known = this.#known.get(id) ?? (await this.#find(id));
    return await execInContainer(
      { engine: this.#engine, ...known, signaller, answers: this.#answers(id) },
      command,
    );
  }

  async pause(id: string): Promise<void> {
    const { Id, State } = await this.#inspect(id);
    if (State.Paused) return;
    if (!State.Running) throw notRunning(id);
    const container = this.#engine.docker.getContainer(Id);
    const answers = this.#answers(id);
    // Another call was quicker.
    const already = (message: string) =>
      /already paused/i.test(message) ? undefined : answers[409]!(message);
    await this.#engine.ask("pause a sandbox", () => container.pause(), { ...answers, 409: already });
  }

  async resume(id: string): Promise<void> {
    const { Id, State } = await this.#inspect(id);
    if (!State.Running) throw notRunning(id);
    if (State.Paused) await this.#thaw(Id);
  }

  async stop(id: string): Promise<void> {
    const { containers, signaller } = this.#now();
    const info = await containers.inspect(id);
    if (!info?.State.Running) return;
    const container = this.#engine.docker.getContainer(info.Id);
    this.#listeners.close(id);
    if (info.State.Paused) await this.#thaw(info.Id);
    const init = { pid: info.State.Pid, spare: info.Path === initPath };
    await signaller.terminateAll(info.Id, info.Config.Labels[labels.user] ?? "", init).catch(() => {});
    const end = Date.now() + stopMs;
    const pids = () => containers.stats(container).then(pidsOf, () => 0);
    // The init alone is one process.
    while (Date.now() < end && (await pids()) > (init.spare ? 1 : 0)) await delay(20);
    await this.#engine.ask("stop a sandbox", () => container.kill(), { 404: () => {}, 409: () => {} });
    const ended = (abortSignal: AbortSignal) => container.wait({ condition: "not-running", abortSignal });
    await this.#engine.ask("stop a sandbox", ended, { 404: () => {} });
  }

  async remove(id: string): Promise<void> {
    if (!idPattern.test(id)) return;
    this.#known.delete(id);
    this.#listeners.close(id);
    await this.#now().containers.removeSandbox(id);
  }

  async list(): Promise<DriverSandbox[]> {
    const containers = await this.#now().containers.list(labels.sandbox);
    return containers
      .filter(({ State }) => State !== "removing")
      .map(({ Labels, State }) => ({
        id: Labels[labels.sandbox]!,
        state: State === "running" ? "running" : State === "paused" ? "paused" : "stopped",
      }));
  }

  /** The engine copies the written files into a new layer, so this takes time by their size. The sandbox is frozen meanwhile and goes on. */
  async snapshot(id: string, snapshotId: string): Promise<void> {
    if (!idPattern.test(snapshotId)) throw failed(`"${snapshotId}" cannot name a snapshot.`);
    const { Id } = await this.#inspect(id);
    await this.#now().snapshots.save(this.#engine.docker.getContainer(Id), snapshotId, this.#answers(id));
  }

  async removeSnapshot(snapshotId: string): Promise<void> {
    if (idPattern.test(snapshotId)) await this.#now().snapshots.remove(snapshotId);
  }

  async snapshots(): Promise<string[]> {
    return await this.#now().snapshots.list();
  }

  async connect(id: string, port: number): Promise<Duplex> {
    const { pid, isMember } = await this.#firstProcess(id);
    return await connectInside(pid, port, isMember);
  }

  async listen(id: string, port: number, accept: (connection: Duplex) => void): Promise<{ close(): void }> {
    const { pid, isMember, container } = await this.#firstProcess(id);
    return this.#listeners.add(id, container, await listenInside(pid, port, accept, isMember));
  }

  async usage(id: string): Promise<SandboxUsage> {
    const { Id, State, SizeRw } = await this.#inspect(id, true);
    const diskBytes = SizeRw ?? 0;
    if (!State.Running) return { diskBytes, memoryBytes: 0, cpuMs: 0, pids: 0 };
    const stats = await this.#now().containers.stats(this.#engine.docker.getContainer(Id));
    const { usage = 0, stats: parts } = stats.memory_stats;
    // What the kernel gives back by itself is not in use.
    const cache = parts?.total_inactive_file ?? parts?.inactive_file ?? 0;
    return {
      diskBytes,
      memoryBytes: Math.max(0, usage - cache),
      cpuMs: Math.round((stats.cpu_stats.cpu_usage?.total_usage ?? 0) / 1e6),
      pids: pidsOf(stats),
    };
  }

  async reap(known: { sandboxes: Set<string>; snapshots: Set<string> }): Promise<void> {
    for (const { id } of await this.list()) if (!known.sandboxes.has(id)) await this.remove(id);
    await this.#now().snapshots.reap(known.snapshots);
  }

  async close(): Promise<void> {
    this.#opened = undefined;
    this.#known.clear();
    this.#listeners.closeAll();
  }

  #now(): Opened {
    if (!this.#opened) throw failed("The sandbox driver is not open.");
    return this.#opened;
  }

  async #inspect(id: string, size = false): Promise<Inspected> {
    const info = idPattern.test(id) ? await this.#now().containers.inspect(id, size) : undefined;
    if (!info) throw notFound(id);
    return info;
  }

  async #find(id: string): Promise<Known> {
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
    // The engine refuses to thaw what another call has thawed meanwhile, or what has ended.
    const thawed = (message: string) => {
      if (!/not paused|not running/i.test(message))
        throw failed(`The container engine could not resume the sandbox: ${message}.`);
    };
    await this.#engine.ask("resume a sandbox", () => handle.unpause(), { 409: thawed, 500: thawed });
  }

  /** What the engine's refusals mean for a sandbox. */
  #answers(id: string): Answers<never> {
    return {
      404: () => {
        this.#known.delete(id);
        throw notFound(id);
      },
      409: (message) => {
        if (!/paused/i.test(message)) throw notRunning(id);
        throw new PlatformError("SandboxNotRunning", `The sandbox ${id} is paused; resume it first.`);
      },
    };
  }

  /** The first process, where its id means the same on this machine. */
  async #firstProcess(
    id: string,
  ): Promise<{ pid: number; container: string; isMember: (pid: number) => boolean }> {
    const { Id, State } = await this.#inspect(id);
    if (!State.Running) throw notRunning(id);
    const isMember = (pid: number) => belongsTo(pid, Id);
    if (this.#now().signaller instanceof DirectSignaller && isMember(State.Pid))
      return { pid: State.Pid, container: Id, isMember };
    throw failed(
      "Ports of a sandbox are reached only when the container engine is on the same machine as the server and the server runs as root.",
    );
  }
}

function pidsOf(stats: ContainerStats): number {
  return stats.pids_stats?.current ?? 0;
}

function failed(message: string): PlatformError {
  return new PlatformError("SandboxFailed", message);
}

function notFound(id: string): PlatformError {
  return new PlatformError("SandboxNotFound", `There is no sandbox ${id}.`);
}

function notRunning(id: string): PlatformError {
  return new PlatformError(
    "SandboxNotRunning",
    `The processes of the sandbox ${id} have ended; start it again.`,
  );
}
