import type { ContainerCreateOptions } from "dockerode";
import type { PreparedSpec } from "../../driver.ts";
import { usualCapabilities } from "../../specs/capabilities.ts";
import {
  formatEnvironment,
  getShmBytes,
  makeBaseEnvironment,
  maskedProcPaths,
  readonlyPaths,
  sandboxOomScore,
  toCpuQuota,
} from "../common/isolation.ts";
import { containerInitPath, type Program } from "./injected-programs.ts";

/** Labels of containers and images. */
export const labels = {
  installation: "sandpiper.installation",
  sandbox: "sandpiper.sandbox",
  snapshot: "sandpiper.snapshot",
  /** `uid:gid` that runs commands. */
  user: "sandpiper.user",
  workingDir: "sandpiper.working-dir",
  /** `yes`: a container for reading an image's files. */
  helper: "sandpiper.helper",
} as const;

/** Readable for the machine's root only, which root inside is without a user namespace. */
const rootOnlyProcPaths = "kmsg kpagecgroup kpagecount kpageflags pagetypeinfo slabinfo vmallocinfo"
  .split(" ")
  .map((name) => `/proc/${name}`);

/** An engine mounts all of /sys, so that only known parts can be hidden. */
const maskedSysPaths = `
    block bus class/block class/dmi class/nvme class/power_supply class/scsi_host class/thermal dev
    devices/LNXSYSTM:00 devices/pci0000:00 devices/platform devices/pnp0 devices/virtual/block
    devices/virtual/dmi devices/virtual/powercap devices/virtual/thermal firmware hypervisor kernel/btf
    kernel/debug kernel/iommu_groups kernel/irq kernel/security kernel/slab kernel/tracing module power
  `
  .trim()
  .split(/\s+/)
  .map((name) => `/sys/${name}`);

/** Limits of processes; an engine cannot exceed its own, which are far above these. */
const ulimits = { core: 0, nofile: 16_384, sigpending: 2_048, msgqueue: 819_200 };

export interface ContainerInput {
  id: string;
  installation: string;
  spec: PreparedSpec;
  /** Image reference or id: the spec's, or that of a snapshot. */
  image: string;
  /** Programs of this machine, bound read-only. */
  binds: Program[];
  /** Seccomp profile as JSON; undefined: the engine's own. */
  seccomp: string | undefined;
  /** True when root inside is not the machine's root. */
  hasUserNamespace: boolean;
  /** True when the engine can limit the size of the writable layer. */
  diskLimit: boolean;
  /** Control group of the installation, which limits all its sandboxes together. */
  group: string | undefined;
}

/** The isolation of docs/understand/internals/security.md as far as the engine supports it. */
export function makeContainerOptions(input: ContainerInput): ContainerCreateOptions {
  const { id, spec } = input;
  const capabilities = spec.capabilities ?? (input.hasUserNamespace ? usualCapabilities : []);
  const { memoryBytes, pids, cpus, diskBytes } = spec.limits;
  const { quota, period } = toCpuQuota(cpus);
  const user = formatUser(spec);
  return {
    name: toContainerName(input.installation, id),
    Hostname: id,
    Image: input.image,
    // Replaces the image's own entry point and health check.
    Entrypoint: spec.command ?? [containerInitPath, "-P"],
    Cmd: [],
    Healthcheck: { Test: ["NONE"] },
    StopSignal: "SIGTERM",
    User: spec.command ? user : "0:0",
    WorkingDir: spec.command ? spec.workingDir : "/",
    Env: formatEnvironment({ ...makeBaseEnvironment(spec), ...spec.env }),
    Labels: {
      [labels.installation]: input.installation,
      [labels.sandbox]: id,
      [labels.user]: user,
      [labels.workingDir]: spec.workingDir,
      // Replaces a label of the image.
      [labels.helper]: "no",
    },
    HostConfig: {
      NetworkMode: "none",
      IpcMode: "private",
      RestartPolicy: { Name: "no" },
      LogConfig: { Type: "none", Config: {} },
      CapDrop: ["ALL"],
      CapAdd: [...capabilities],
      SecurityOpt: [
        ...(capabilities.length === 0 ? ["no-new-privileges"] : []),
        ...(input.seccomp === undefined ? [] : [`seccomp=${input.seccomp}`]),
      ],
      Memory: memoryBytes,
      MemorySwap: memoryBytes,
      PidsLimit: pids,
      ...(input.group ? { CgroupParent: input.group } : {}),
      CpuPeriod: period,
      CpuQuota: quota,
      OomScoreAdj: sandboxOomScore,
      ShmSize: getShmBytes(spec),
      Ulimits: Object.entries(ulimits).map(([Name, most]) => ({ Name, Soft: most, Hard: most })),
      Binds: input.binds.map(({ source, destination }) => `${source}:${destination}:ro`),
      ...(input.diskLimit ? { StorageOpt: { size: String(diskBytes) } } : {}),
      MaskedPaths: [...maskedProcPaths, ...rootOnlyProcPaths, ...maskedSysPaths],
      ReadonlyPaths: readonlyPaths,
    },
  };
}

/** Includes the installation, because all users of an engine share its names. */
export function toContainerName(installation: string, id: string): string {
  return `sandpiper-${installation}-${id}`;
}

export function formatUser({ user }: PreparedSpec): string {
  return `${user.uid}:${user.gid}`;
}
