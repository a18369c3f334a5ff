import type { ContainerCreateOptions } from "dockerode";
import type { PreparedSpec } from "../../driver.ts";
import { maskedPaths } from "../common/hidden-paths.ts";
import { shmBytes } from "../oci/container/config.ts";
import { initPath, type Tool } from "./tools.ts";

/** Labels by which containers and images are found again. */
export const labels = {
  installation: "sandpiper.installation",
  sandbox: "sandpiper.sandbox",
  snapshot: "sandpiper.snapshot",
  /** `uid:gid` that runs commands. */
  user: "sandpiper.user",
  workingDir: "sandpiper.working-dir",
  /** `yes`: a container that is only looked into while an image is prepared. */
  helper: "sandpiper.helper",
} as const;

export interface ContainerInput {
  id: string;
  installation: string;
  spec: PreparedSpec;
  /** Image reference or id; that of a snapshot instead of the spec's. */
  image: string;
  /** Programs that are bound from this machine, read-only. */
  binds: Tool[];
  /** Seccomp profile as JSON; undefined: the engine's own. */
  seccomp: string | undefined;
  /** The engine can bound the writable layer. */
  diskLimit: boolean;
}

/** What the engine is asked for: the isolation of docs/internals/security.md as far as the engine gives it. */
export function containerOptions(input: ContainerInput): ContainerCreateOptions {
  const { id, spec } = input;
  const { memoryBytes, pids, cpus, diskBytes } = spec.limits;
  const user = `${spec.user.uid}:${spec.user.gid}`;
  return {
    name: containerName(input.installation, id),
    Hostname: id,
    Image: input.image,
    // An image's own entry point and health check are not what a sandbox runs.
    Entrypoint: spec.command ?? [initPath, "-P"],
    Cmd: [],
    Healthcheck: { Test: ["NONE"] },
    StopSignal: "SIGTERM",
    User: spec.command ? user : "0:0",
    WorkingDir: spec.command ? spec.workingDir : "/",
    Env: Object.entries(environment(spec)).map(([name, value]) => `${name}=${value}`),
    Labels: {
      [labels.installation]: input.installation,
      [labels.sandbox]: id,
      [labels.user]: user,
      [labels.workingDir]: spec.workingDir,
      // An image may bring labels of its own.
      [labels.helper]: "no",
    },
    HostConfig: {
      NetworkMode: "none",
      IpcMode: "private",
      RestartPolicy: { Name: "no" },
      LogConfig: { Type: "none", Config: {} },
      CapDrop: ["ALL"],
      SecurityOpt: [
        "no-new-privileges",
        ...(input.seccomp === undefined ? [] : [`seccomp=${input.seccomp}`]),
      ],
      Memory: memoryBytes,
      MemorySwap: memoryBytes,
      PidsLimit: pids,
      CpuPeriod: 100_000,
      CpuQuota: Math.max(1_000, Math.round(cpus * 100_000)),
      // Under memory pressure of the whole machine the sandboxes' work goes before the server.
      OomScoreAdj: 500,
      ShmSize: shmBytes(spec),
      // That of open files stays the engine's: it cannot give more than it has itself.
      Ulimits: [{ Name: "core", Soft: 0, Hard: 0 }],
      Binds: input.binds.map(({ source, destination }) => `${source}:${destination}:ro`),
      ...(input.diskLimit ? { StorageOpt: { size: String(diskBytes) } } : {}),
      MaskedPaths: [...maskedPaths],
      ReadonlyPaths: [
        "/proc/bus",
        "/proc/fs",
        "/proc/irq",
        "/proc/pressure",
        "/proc/sys",
        "/proc/sysrq-trigger",
      ],
    },
  };
}

/** An engine's names are one space for all its users; the installation keeps ours apart. */
export function containerName(installation: string, id: string): string {
  return `sandpiper-${installation}-${id}`;
}

function environment(spec: PreparedSpec): Record<string, string> {
  const { user } = spec;
  return {
    PATH: "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    HOME: user.home,
    USER: user.name,
    LOGNAME: user.name,
    LANG: "C.UTF-8",
    ...spec.env,
  };
}
