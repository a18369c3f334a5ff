import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { Container, ContainerInspectInfo } from "dockerode";
import type { DockerHost } from "../../../config/config.ts";
import { PlatformError } from "../../../errors.ts";
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
import { connectInside, listenInside } from "../oci/ports.ts";
import { putAdditions } from "./additions.ts";
import { containerName, containerOptions, labels } from "./container.ts";
import { type Answers, Engine } from "./engine.ts";
import { engineName, parseEngineImage } from "./engine-image.ts";
import { execInContainer } from "./exec.ts";
import { Images } from "./images.ts";
import { Listeners } from "./listeners.ts";
import { belongsTo, DirectSignaller, InsideSignaller, type Signaller } from "./processes.ts";
import { seccompOption } from "./seccomp-option.ts";
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
  installation: string;
  images: Images;
  signaller: Signaller;
  tools: Tool[];
  /** The engine is on this machine: its bind mounts and process ids mean the same here. */
  local: boolean;
  seccomp: string | undefined;
  /** Unknown until the engine has refused it once. */
  diskLimit: boolean;
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
/** A commit copies the files that the sandbox has written, and a removal deletes them. */
const longMs = 600_000;

/** Sandboxes as containers of a Docker or Podman engine. Everything about them is found again by labels. */
export class DockerDriver implements SandboxDriver {
  readonly name = "docker";
  readonly #options: DockerDriverOptions;
  readonly #engine: Engine;
  readonly #known = new Map<string, Known>();
  readonly #listeners = new Listeners();
  #opened: Opened | undefined;

  constructor(options: DockerDriverOptions) {
    this.#options = options;
    this.#engine = new Engine(options.host, options.patienceMs);
  }

  get shell(): string[] | undefined {
    return shellOf(this.#opened?.tools ?? []);
  }

  async open(): Promise<void> {
    const info = await this.#engine.info();
    const tools = findTools();
    if (!tools) {
      throw new PlatformError(
        "SandboxFailed",
        "The docker driver needs a static init: install it with `apt-get install catatonit`.",
      );
    }
    if (!info.SecurityOptions?.some((option) => /^name=seccomp(?!.*unconfined)/.test(option))) {
      throw new PlatformError(
        "SandboxFailed",
        "The container engine filters no system calls: turn seccomp on in its configuration.",
      );
    }
    const installation = installationName(this.#options.dir);
    const local = await this.#engine.isOnThisMachine();
    const direct = local && process.getuid?.() === 0;
    this.#opened = {
      installation,
      images: new Images(this.#engine, installation, this.#options.authFile),
      signaller: direct ? new DirectSignaller() : new InsideSignaller(this.#engine, shellOf(tools) ?? ["sh"]),
      tools,
      local,
      seccomp: seccompOption(),
      diskLimit: mayLimitDisk(info.Driver, info.DriverStatus ?? []),
    };
    for (const { Id } of await this.#containers(labels.helper)) await this.#removeContainer(Id);
  }

  async prepare(spec: SandboxSpec, options: PrepareOptions = {}): Promise<PreparedSpec> {
    return await this.#now().images.prepare(spec, options);
  }

  async start(request: StartRequest): Promise<void> {
    const { id } = request;
    if (!idPattern.test(id)) throw new PlatformError("SandboxFailed", `"${id}" cannot name a sandbox.`);
    const existing = await this.#inspect(id);
    if (existing?.State.Running) throw new PlatformError("SandboxFailed", `The sandbox ${id} runs already.`);
    if (existing) return await this.#startContainer(existing.Id);
    const container = await this.#create(request);
    try {
      const { local, tools } = this.#now();
      await putAdditions(this.#engine, container, request, local ? [] : tools);
      await this.#startContainer(container);
    } catch (error) {
      await this.#removeContainer(container).catch(() => {});
      throw error;
    }
    const { uid, gid } = request.spec.user;
    this.#known.set(id, { container, user: `${uid}:${gid}`, workingDir: request.spec.workingDir });
  }

  async exec(id: string, command: ExecRequest): Promise<SandboxProcess> {
    const words = [...command.argv, command.cwd ?? "", ...Object.entries(command.env ?? {}).flat()];
    if (words.some((word) => word.includes("\0"))) {
      throw new PlatformError("InvalidParameter", "Commands, folders and variables cannot hold a NUL character.");
    }
    if (!command.argv[0]) throw new PlatformError("InvalidParameter", "A command needs at least one word.");
    const { signaller } = this.#now();
    const known = await this.#find(id);
    const answers = this.#answers(id);
    return await execInContainer({ engine: this.#engine, ...known, signaller, answers }, command);
  }

  async pause(id: string): Promise<void> {
    const { container, state } = await this.#stateOf(id);
    if (state.Paused) return;
    if (!state.Running) throw notRunning(id);
    await this.#engine.ask("pause a sandbox", () => container.pause(), this.#answers(id));
  }

  async resume(id: string): Promise<void> {
    const { container, state } = await this.#stateOf(id);
    if (!state.Running) throw notRunning(id);
    if (state.Paused) await this.#engine.ask("resume a sandbox", () => container.unpause(), this.#answers(id));
  }

  async stop(id: string): Promise<void> {
    const info = await this.#inspect(id);
    if (!info?.State.Running) return;
    const container = this.#engine.docker.getContainer(info.Id);
    if (info.State.Paused)
      await this.#engine.ask("resume a sandbox", () => container.unpause(), { 409: () => {}, 500: () => {} });
    this.#listeners.close(id);
    const init = { pid: info.State.Pid, spare: info.Path === initPath };
    await this.#now()
      .signaller.terminateAll(info.Id, info.Config.Labels[labels.user] ?? "", init)
      .catch(() => {});
    const end = Date.now() + stopMs;
    // The init alone is one process.
    while (Date.now() < end && (await this.#pids(container)) > (init.spare ? 1 : 0)) await delay(20);
    await this.#engine.ask("stop a sandbox", () => container.kill(), { 404: () => {}, 409: () => {} });
    await this.#engine.ask("stop a sandbox", (abortSignal) => container.wait({ condition: "not-running", abortSignal }), {
      404: () => {},
    });
  }

  async remove(id: string): Promise<void> {
    if (!idPattern.test(id)) return;
    this.#known.delete(id);
    this.#listeners.close(id);
    await this.#removeContainer(containerName(this.#now().installation, id));
  }

  async list(): Promise<DriverSandbox[]> {
    const containers = await this.#containers(labels.sandbox);
    return containers
      .filter(({ State }) => State !== "removing")
      .map(({ Labels, State }) => ({
        id: Labels[labels.sandbox]!,
        state: State === "running" ? "running" : State === "paused" ? "paused" : "stopped",
      }));
  }

  /** The engine copies the written files into a new layer, so this takes time by their size. The sandbox is frozen meanwhile and goes on. */
  async snapshot(id: string, snapshotId: string): Promise<void> {
    if (!idPattern.test(snapshotId)) throw new PlatformError("SandboxFailed", `"${snapshotId}" cannot name a snapshot.`);
    const { installation } = this.#now();
    const { container } = await this.#stateOf(id);
    const changes = [`LABEL ${labels.installation}=${installation}`, `LABEL ${labels.snapshot}=${snapshotId}`];
    const request = { repo: snapshotRepository(installation), tag: snapshotId, pause: true, changes };
    await this.#engine.ask("keep the files of a sandbox", () => container.commit(request), this.#answers(id), longMs);
  }

  async removeSnapshot(snapshotId: string): Promise<void> {
    if (!idPattern.test(snapshotId)) return;
    const name = `${snapshotRepository(this.#now().installation)}:${snapshotId}`;
    await this.#removeImage(name);
  }

  async snapshots(): Promise<string[]> {
    return (await this.#snapshotImages()).flatMap(({ snapshot }) => (snapshot === undefined ? [] : [snapshot]));
  }

  async connect(id: string, port: number): Promise<Duplex> {
    const { pid, isMember } = await this.#firstProcess(id);
    return await connectInside(pid, port, isMember);
  }

  async listen(id: string, port: number, accept: (connection: Duplex) => void): Promise<{ close(): void }> {
    const { pid, isMember } = await this.#firstProcess(id);
    const listener = await listenInside(pid, port, accept, isMember);
    return this.#listeners.add(id, listener);
  }

  async usage(id: string): Promise<SandboxUsage> {
    const { container, state } = await this.#stateOf(id, true);
    const size = { diskBytes: state.size };
    if (!state.Running) return { ...size, memoryBytes: 0, cpuMs: 0, pids: 0 };
    const stats = await this.#stats(container);
    const cache = stats.memory_stats.stats?.inactive_file ?? stats.memory_stats.stats?.total_inactive_file ?? 0;
    return {
      ...size,
      memoryBytes: Math.max(0, (stats.memory_stats.usage ?? 0) - cache),
      cpuMs: Math.round((stats.cpu_stats.cpu_usage?.total_usage ?? 0) / 1e6),
      pids: stats.pids_stats?.current ?? 0,
    };
  }

  async reap(known: { sandboxes: Set<string>; snapshots: Set<string> }): Promise<void> {
    for (const { id } of await this.list()) if (!known.sandboxes.has(id)) await this.remove(id);
    for (const { image, snapshot } of await this.#snapshotImages()) {
      // One without a name was removed while sandboxes used it; the engine refuses while they do.
      if (snapshot === undefined) await this.#removeImage(image);
      else if (!known.snapshots.has(snapshot)) await this.removeSnapshot(snapshot);
    }
  }

  async close(): Promise<void> {
    this.#opened = undefined;
    this.#known.clear();
    this.#listeners.closeAll();
  }

  #now(): Opened {
    if (!this.#opened) throw new PlatformError("SandboxFailed", "The sandbox driver is not open.");
    return this.#opened;
  }

  /** Creates the container; tries once more without a disk limit where the engine has none. */
  async #create(request: StartRequest): Promise<string> {
    const opened = this.#now();
    const { id, spec, snapshot } = request;
    const own = spec.root.kind === "image" ? engineName(parseEngineImage(spec.root.reference)) : "";
    const image = snapshot === undefined ? own : `${snapshotRepository(opened.installation)}:${snapshot}`;
    const { installation, local, tools, seccomp, diskLimit } = opened;
    const options = containerOptions({ id, installation, spec, image, binds: local ? tools : [], seccomp, diskLimit });
    const refuse = (message: string): string => {
      if (diskLimit && /storage-opt|storage opt|quota/i.test(message)) return "";
      throw new PlatformError("SandboxFailed", `The container engine could not make the sandbox: ${message}.`);
    };
    const missing = (message: string): never => {
      if (snapshot !== undefined) throw new PlatformError("SnapshotNotFound", `The engine has no snapshot ${snapshot}.`);
      throw new PlatformError(
        "SandboxFailed",
        `The engine no longer has the image of the sandbox (${message}); start one from the spec anew.`,
      );
    };
    const made = await this.#engine.ask(
      "make a sandbox",
      async (abortSignal) => (await this.#engine.docker.createContainer({ ...options, abortSignal })).id,
      { 400: refuse, 500: refuse, 404: missing },
    );
    if (made !== "") return made;
    opened.diskLimit = false;
    return await this.#create(request);
  }

  async #startContainer(container: string): Promise<void> {
    await this.#engine.ask("start the sandbox", (abortSignal) =>
      this.#engine.docker.getContainer(container).start({ abortSignal }),
    );
  }

  async #removeContainer(container: string): Promise<void> {
    const handle = this.#engine.docker.getContainer(container);
    const removed = await this.#engine.ask(
      "remove a sandbox",
      async () => {
        await handle.remove({ force: true, v: true });
        return true;
      },
      { 404: () => true, 409: () => false },
      longMs,
    );
    // Somebody else's removal is at work already.
    if (!removed)
      await this.#engine.ask("remove a sandbox", () => handle.wait({ condition: "removed" }), { 404: () => {} }, longMs);
  }

  async #removeImage(name: string): Promise<void> {
    const image = this.#engine.docker.getImage(name);
    await this.#engine.ask("remove a snapshot", () => image.remove({ force: true }), { 404: () => {}, 409: () => {} }, longMs);
  }

  async #containers(label: string) {
    const filters = { label: [`${labels.installation}=${this.#now().installation}`, label] };
    return await this.#engine.ask("list its containers", (abortSignal) =>
      this.#engine.docker.listContainers({
        all: true,
        filters: JSON.stringify(filters) as unknown as typeof filters,
        abortSignal,
      }),
    );
  }

  /** Images of snapshots by id; `snapshot` is undefined for one whose name was taken away. */
  async #snapshotImages(): Promise<{ image: string; snapshot: string | undefined }[]> {
    const { installation } = this.#now();
    const filters = JSON.stringify({ label: [`${labels.installation}=${installation}`, labels.snapshot] });
    const images = await this.#engine.ask("list its images", (abortSignal) =>
      this.#engine.docker.listImages({ filters, abortSignal }),
    );
    const prefix = `${snapshotRepository(installation)}:`;
    return images.flatMap(({ Id, RepoTags }): { image: string; snapshot: string | undefined }[] => {
      const names = (RepoTags ?? [])
        .filter((name) => name.includes(prefix))
        .map((name) => name.slice(name.indexOf(prefix) + prefix.length));
      return names.length === 0 ? [{ image: Id, snapshot: undefined }] : names.map((snapshot) => ({ image: Id, snapshot }));
    });
  }

  async #inspect(id: string, size = false): Promise<(ContainerInspectInfo & { SizeRw?: number }) | undefined> {
    if (!idPattern.test(id)) return undefined;
    const container = this.#engine.docker.getContainer(containerName(this.#now().installation, id));
    return await this.#engine.ask(
      "tell about a sandbox",
      (abortSignal) => container.inspect({ ...(size ? { size } : {}), abortSignal }),
      { 404: () => undefined },
    );
  }

  async #stateOf(
    id: string,
    size = false,
  ): Promise<{ container: Container; state: ContainerInspectInfo["State"] & { size: number } }> {
    const info = await this.#inspect(id, size);
    if (!info) throw notFound(id);
    return { container: this.#engine.docker.getContainer(info.Id), state: { ...info.State, size: info.SizeRw ?? 0 } };
  }

  async #find(id: string): Promise<Known> {
    const known = this.#known.get(id);
    if (known) return known;
    const info = await this.#inspect(id);
    if (!info) throw notFound(id);
    const found = {
      container: info.Id,
      user: info.Config.Labels[labels.user] ?? "",
      workingDir: info.Config.Labels[labels.workingDir] ?? "/",
    };
    this.#known.set(id, found);
    return found;
  }

  #answers(id: string): Answers<never> {
    return {
      404: () => {
        this.#known.delete(id);
        throw notFound(id);
      },
      409: (message) => {
        if (/paused/i.test(message))
          throw new PlatformError("SandboxNotRunning", `The sandbox ${id} is paused; resume it first.`);
        throw notRunning(id);
      },
    };
  }

  /** The first process, where its id means the same on this machine. */
  async #firstProcess(id: string): Promise<{ pid: number; isMember: (pid: number) => boolean }> {
    const info = await this.#inspect(id);
    if (!info) throw notFound(id);
    if (!info.State.Running) throw notRunning(id);
    const pid = info.State.Pid;
    const isMember = (one: number) => belongsTo(one, info.Id);
    if (this.#now().signaller instanceof DirectSignaller && isMember(pid)) return { pid, isMember };
    throw new PlatformError(
      "SandboxFailed",
      "Ports of a sandbox are reached only when the container engine is on the same machine as the server and the server runs as root.",
    );
  }

  async #stats(container: Container) {
    return await this.#engine.ask("measure a sandbox", (abortSignal) =>
      container.stats({ stream: false, "one-shot": true, abortSignal } as { stream: false }),
    );
  }

  /** Number of processes; 0 when there is no container any more. */
  async #pids(container: Container): Promise<number> {
    return await this.#stats(container).then(
      (stats) => stats.pids_stats?.current ?? 0,
      () => 0,
    );
  }
}

function snapshotRepository(installation: string): string {
  return `sandpiper-snapshot/${installation}`;
}

/** An id of this data folder that keeps its containers apart from those of others on the same engine. */
function installationName(dir: string): string {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const file = join(dir, "installation");
  if (!existsSync(file)) {
    writeFileSync(`${file}.new`, randomBytes(6).toString("hex"), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  }
  const name = readFileSync(file, "utf8");
  if (!/^[0-9a-f]{12}$/.test(name))
    throw new PlatformError("SandboxFailed", `The file ${file} is damaged: it must hold 12 hexadecimal digits.`);
  return name;
}

/** Storage drivers that can bound a container's layer; overlay2 says only when it is asked. */
function mayLimitDisk(driver: string, status: [string, string][]): boolean {
  if (["btrfs", "zfs", "devicemapper", "windowsfilter"].includes(driver)) return true;
  return /overlay/.test(driver) && status.some(([name, value]) => name === "Backing Filesystem" && value === "xfs");
}

function notFound(id: string): PlatformError {
  return new PlatformError("SandboxNotFound", `There is no sandbox ${id}.`);
}

function notRunning(id: string): PlatformError {
  return new PlatformError("SandboxNotRunning", `The processes of the sandbox ${id} have ended; start it again.`);
}
