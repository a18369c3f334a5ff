import { PlatformError } from "@sandpiper/core/errors";
import type { Container, ContainerInfo, ContainerInspectInfo, ContainerStats } from "dockerode";
import type { StartRequest } from "../../driver.ts";
import { containerName, containerOptions, labels } from "./container.ts";
import { type Answers, type Engine, type EngineInfo, longPatienceMs } from "./engine.ts";
import type { Tool } from "./tools.ts";

export type Inspected = ContainerInspectInfo & { SizeRw?: number };

export interface ContainersOptions {
  installation: string;
  /** Programs to bind into every container. */
  binds: Tool[];
  seccomp: string | undefined;
  info: EngineInfo;
}

/** The containers of an installation at its engine. */
export class Containers {
  readonly #engine: Engine;
  readonly #options: ContainersOptions;
  /** Until the engine refuses it. */
  #diskLimit: boolean;

  constructor(engine: Engine, options: ContainersOptions) {
    this.#engine = engine;
    this.#options = options;
    this.#diskLimit = mayLimitDisk(options.info);
  }

  /** Creates a container from an image and gives its id. Tries once more without a disk limit where the engine has none. */
  async create(request: StartRequest, image: string): Promise<string> {
    const { id, spec, snapshot } = request;
    const diskLimit = this.#diskLimit;
    const options = containerOptions({ id, spec, image, diskLimit, ...this.#options });
    const refuse = (message: string): undefined => {
      if (diskLimit && /storage-opt|storage opt|quota/i.test(message)) return undefined;
      throw new PlatformError(
        "SandboxFailed",
        `The container engine could not make the sandbox: ${message}.`,
      );
    };
    const missing = (message: string): never => {
      if (snapshot !== undefined)
        throw new PlatformError("SnapshotNotFound", `The engine has no snapshot ${snapshot}.`);
      throw new PlatformError(
        "SandboxFailed",
        `The engine no longer has the image of the sandbox: ${message}.`,
      );
    };
    const made = await this.#engine.ask(
      "make a sandbox",
      async (abortSignal) => (await this.#engine.docker.createContainer({ ...options, abortSignal })).id,
      { 400: refuse, 500: refuse, 404: missing },
    );
    if (made !== undefined) return made;
    this.#diskLimit = false;
    return await this.create(request, image);
  }

  async start(container: string): Promise<void> {
    const handle = this.#engine.docker.getContainer(container);
    await this.#engine.ask("start the sandbox", (abortSignal) => handle.start({ abortSignal }));
  }

  /** By sandbox id. `size` makes the engine measure the written files. */
  async inspect(id: string, size = false): Promise<Inspected | undefined> {
    const container = this.#engine.docker.getContainer(containerName(this.#options.installation, id));
    return await this.#engine.ask<Inspected, undefined>(
      "tell about a sandbox",
      (abortSignal) => container.inspect({ ...(size ? { size } : {}), abortSignal }),
      { 404: () => undefined },
    );
  }

  async list(label: string): Promise<ContainerInfo[]> {
    const filters = { label: [`${labels.installation}=${this.#options.installation}`, label] };
    return await this.#engine.ask("list its containers", (abortSignal) =>
      this.#engine.docker.listContainers({ all: true, filters, abortSignal }),
    );
  }

  /** By sandbox id. */
  async removeSandbox(id: string): Promise<void> {
    await this.remove(containerName(this.#options.installation, id));
  }

  async remove(container: string): Promise<void> {
    const handle = this.#engine.docker.getContainer(container);
    const answers: Answers<boolean> = { 404: () => true, 409: () => false };
    const remove = () => handle.remove({ force: true, v: true }).then(() => true);
    if (await this.#engine.ask("remove a sandbox", remove, answers, longPatienceMs)) return;
    // Another removal is at work already.
    await this.#engine.ask(
      "remove a sandbox",
      () => handle.wait({ condition: "removed" }),
      { 404: () => {} },
      longPatienceMs,
    );
  }

  async stats(container: Container): Promise<ContainerStats> {
    return await this.#engine.ask("measure a sandbox", (abortSignal) =>
      container.stats({ stream: false, "one-shot": true, abortSignal } as { stream: false }),
    );
  }
}

/** Storage drivers that can bound a container's layer; overlay2 says only when it is asked. */
function mayLimitDisk({ Driver, DriverStatus }: EngineInfo): boolean {
  if (["btrfs", "zfs", "devicemapper"].includes(Driver)) return true;
  return (
    /overlay/.test(Driver) &&
    (DriverStatus ?? []).some(([name, value]) => name === "Backing Filesystem" && value === "xfs")
  );
}
