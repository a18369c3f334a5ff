import { existsSync, readFileSync } from "node:fs";
import { PlatformError } from "@sandpiper/core/errors";
import type { Container, ContainerInfo, ContainerInspectInfo, ContainerStats } from "dockerode";
import type { StartRequest } from "../../driver.ts";
import { makeSeccompSection, profilePath, type SeccompProfile } from "../common/seccomp.ts";
import { labels, makeContainerOptions, toContainerName } from "./container-options.ts";
import { type Engine, type EngineInfo, longTimeoutMs } from "./engine.ts";
import type { Program } from "./injected-programs.ts";

export type InspectedContainer = ContainerInspectInfo & { SizeRw?: number };

export interface DockerContainersOptions {
  installation: string;
  /** Programs to bind into every container. */
  binds: Program[];
  info: EngineInfo;
  /** Control group above those of the containers; undefined: the engine's own. */
  group?: string | undefined;
}

/** The containers of an installation at its engine. */
export class DockerContainers {
  readonly #engine: Engine;
  readonly #options: DockerContainersOptions;
  readonly #seccomp = makeSeccompOption();
  readonly #hasUserNamespace: boolean;
  /** Set to false when the engine refuses a limit. */
  #diskLimit: boolean;

  constructor(engine: Engine, options: DockerContainersOptions) {
    this.#engine = engine;
    this.#options = options;
    this.#diskLimit = mayLimitDisk(options.info);
    this.#hasUserNamespace = (options.info.SecurityOptions ?? []).some((option) =>
      /^name=(userns|rootless)\b/.test(option),
    );
  }

  /** Creates a container and returns its id. Retries without a refused disk limit. */
  async create(request: StartRequest, image: string): Promise<string> {
    const { id, spec, snapshot } = request;
    const { installation, binds, group } = this.#options;
    const diskLimit = this.#diskLimit;
    const seccomp = this.#seccomp;
    const hasUserNamespace = this.#hasUserNamespace;
    const options = makeContainerOptions({
      id,
      spec,
      image,
      diskLimit,
      seccomp,
      installation,
      binds,
      hasUserNamespace,
      group,
    });
    const refused = (reason: string): undefined => {
      if (diskLimit && /storage-opt|storage opt|quota/i.test(reason)) return undefined;
      throw new PlatformError("EngineRefused", { action: "create the sandbox", reason });
    };
    const missing = (reason: string): never => {
      if (snapshot !== undefined) throw new PlatformError("UnknownSnapshot", { id: snapshot });
      throw new PlatformError("EngineImageRemoved", { reason });
    };
    const created = await this.#engine.request(
      "create the sandbox",
      async (abortSignal) => (await this.#engine.docker.createContainer({ ...options, abortSignal })).id,
      { 400: refused, 500: refused, 404: missing },
    );
    if (created !== undefined) return created;
    this.#diskLimit = false;
    return await this.create(request, image);
  }

  async start(container: string): Promise<void> {
    const handle = this.#engine.docker.getContainer(container);
    await this.#engine.request("start the sandbox", (abortSignal) => handle.start({ abortSignal }));
  }

  /** By sandbox id. With `size` the engine measures the written files. */
  async inspect(id: string, size = false): Promise<InspectedContainer | undefined> {
    const container = this.#engine.docker.getContainer(toContainerName(this.#options.installation, id));
    return await this.#engine.request<InspectedContainer, undefined>(
      "inspect a sandbox",
      (abortSignal) => container.inspect({ ...(size ? { size } : {}), abortSignal }),
      { 404: () => undefined },
    );
  }

  async list(label: string): Promise<ContainerInfo[]> {
    const filters = { label: [`${labels.installation}=${this.#options.installation}`, label] };
    return await this.#engine.request("list its containers", (abortSignal) =>
      this.#engine.docker.listContainers({ all: true, filters, abortSignal }),
    );
  }

  /** By sandbox id. */
  async removeSandbox(id: string): Promise<void> {
    await this.remove(toContainerName(this.#options.installation, id));
  }

  async remove(container: string): Promise<void> {
    const { docker } = this.#engine;
    const handle = docker.getContainer(container);
    const removed = await this.#engine.request(
      "remove a sandbox",
      () => handle.remove({ force: true, v: true }).then(() => true),
      { 404: () => true, 409: () => false },
      longTimeoutMs,
    );
    if (removed) return;
    // Another removal is running.
    const wait = () => handle.wait({ condition: "removed" });
    await this.#engine.request("remove a sandbox", wait, { 404: () => {} }, longTimeoutMs);
  }

  async stats(container: Container): Promise<ContainerStats> {
    return await this.#engine.request("measure a sandbox", (abortSignal) =>
      container.stats({ stream: false, "one-shot": true, abortSignal } as { stream: false }),
    );
  }
}

/** True for storage drivers that may limit a layer; overlay2 reveals it only at creation. */
function mayLimitDisk({ Driver, DriverStatus }: EngineInfo): boolean {
  if (["btrfs", "zfs", "devicemapper"].includes(Driver)) return true;
  return (
    /overlay/.test(Driver) &&
    (DriverStatus ?? []).some(([name, value]) => name === "Backing Filesystem" && value === "xfs")
  );
}

interface SeccompSection {
  syscalls: { args?: { op: string }[] }[];
}

/**
 * The oci driver's system call filter as JSON for an engine. Undefined when there is none for this
 * architecture: the engine's own profile then applies, which may allow AF_VSOCK sockets.
 */
function makeSeccompOption(): string | undefined {
  if (!existsSync(profilePath)) return undefined;
  const profile = JSON.parse(readFileSync(profilePath, "utf8")) as SeccompProfile;
  const section = makeSeccompSection(profile, process.arch) as SeccompSection | undefined;
  if (!section) return undefined;
  // Docker 20 fails on a range next to single values. The default action refuses these calls, too.
  const syscalls = section.syscalls.filter(({ args }) => !args?.some(({ op }) => op === "SCMP_CMP_GT"));
  return JSON.stringify({ ...section, syscalls });
}
