import type { PreparedSpec } from "../../../driver.ts";
import { type Capability, usualCapabilities } from "../../../specs/capabilities.ts";
import type { BindMount } from "../../common/host.ts";
import {
  formatEnvironment,
  getShmBytes,
  makeBaseEnvironment,
  maskedProcPaths,
  readonlyPaths,
} from "../../common/isolation.ts";
import { idRangeSize } from "../../common/uid-range.ts";
import type { ProcessLimits } from "./rlimits.ts";

const initPath = "/run/init";
/** Replaces catatonit when that is not installed. */
const shellInit = ["/bin/sh", "-c", "trap : TERM; while :; do sleep 86400 & wait $!; done"];

export interface ConfigInput {
  id: string;
  spec: PreparedSpec;
  rootfs: string;
  /** Host id of id 0 inside. */
  idBase: number;
  /** Path of the user namespace of the processes; undefined: a new one. */
  userNamespace: string | undefined;
  /** Part of the section `linux`: the process group and its limits. */
  group: object;
  /** Host path of a static init, or null for the shell loop. */
  init: string | null;
  binds: BindMount[];
  /** `linux.seccomp` section, or the compiled filter that crun takes by annotation instead. */
  seccomp: { section: object } | { compiled: string };
  limits: ProcessLimits;
}

/** The machine has about 3,000 for all sandboxes together, and each needs one now and then. */
const maxTerminals = 128;

const noCapabilities = { bounding: [], effective: [], inheritable: [], permitted: [], ambient: [] };

/**
 * What root in the sandbox may do. The files of `host` cannot be changed, so root needs nothing.
 */
export function getCapabilities({ root, capabilities }: PreparedSpec): readonly Capability[] {
  return capabilities ?? (root.kind === "host" ? [] : usualCapabilities);
}

/** Other users than root get them from set-user-id programs only. */
function makeCapabilities(spec: PreparedSpec): object {
  const bounding = getCapabilities(spec).map((name) => `CAP_${name}`);
  const own = spec.user.uid === 0 ? bounding : [];
  return { ...noCapabilities, bounding, effective: own, permitted: own };
}

/** The OCI runtime configuration (config.json) of a sandbox. */
export function makeRuntimeConfig(input: ConfigInput): object {
  const { id, spec, idBase, userNamespace, limits } = input;
  const mapping = [{ containerID: 0, hostID: idBase, size: idRangeSize }];
  const init = input.init === null ? shellInit : [initPath, "-P"];
  const binds =
    input.init === null ? input.binds : [...input.binds, { source: input.init, destination: initPath }];
  return {
    ociVersion: "1.0.2",
    process: spec.command
      ? makeProcessConfig(spec, { argv: spec.command }, limits)
      : {
          ...makeProcessConfig(spec, { argv: init, cwd: "/" }, limits),
          user: { uid: 0, gid: 0 },
          capabilities: noCapabilities,
          noNewPrivileges: true,
        },
    root: { path: input.rootfs, readonly: false },
    hostname: id,
    mounts: [
      mount("/proc", "proc", "proc", "nosuid,noexec,nodev"),
      mount("/dev", "tmpfs", "tmpfs", "nosuid,strictatime,mode=755,size=1m"),
      mount(
        "/dev/pts",
        "devpts",
        "devpts",
        `nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5,max=${maxTerminals}`,
      ),
      mount("/dev/shm", "tmpfs", "shm", `nosuid,nodev,mode=1777,size=${getShmBytes(spec)}`),
      mount("/sys", "tmpfs", "tmpfs", "nosuid,noexec,nodev,ro,mode=755,size=64k"),
      ...binds.map(bindMount),
    ],
    annotations: "compiled" in input.seccomp ? { "run.oci.seccomp_bpf_data": input.seccomp.compiled } : {},
    linux: {
      uidMappings: mapping,
      gidMappings: mapping,
      ...input.group,
      namespaces: [
        { type: "user", ...(userNamespace === undefined ? {} : { path: userNamespace }) },
        ...["pid", "network", "ipc", "uts", "mount", "cgroup"].map((type) => ({ type })),
      ],
      ...("section" in input.seccomp ? { seccomp: input.seccomp.section } : {}),
      maskedPaths: maskedProcPaths,
      readonlyPaths,
    },
  };
}

function bindMount({ source, destination, recursive }: BindMount): object {
  if (source === null) return mount(destination, "tmpfs", "tmpfs", "nosuid,nodev,ro,mode=755,size=4k");
  return mount(destination, "bind", source, recursive ? "rbind,rro,rnosuid,rnodev" : "bind,ro,nosuid,nodev");
}

function mount(destination: string, type: string, source: string, options: string): object {
  return { destination, type, source, options: options.split(",") };
}

export interface ProcessInput {
  argv: string[];
  cwd?: string | undefined;
  env?: Record<string, string> | undefined;
  tty?: { cols: number; rows: number } | undefined;
}

/**
 * The process part of a runtime configuration: the sandbox's user. `crun exec` takes all of it from
 * here.
 */
export function makeProcessConfig(spec: PreparedSpec, input: ProcessInput, limits: ProcessLimits) {
  const { uid, gid } = spec.user;
  return {
    terminal: input.tty !== undefined,
    ...(input.tty ? { consoleSize: { width: input.tty.cols, height: input.tty.rows } } : {}),
    user: { uid, gid, umask: 0o022 },
    args: input.argv,
    env: formatEnvironment({
      ...makeBaseEnvironment(spec),
      SHELL: spec.root.kind === "host" ? "/bin/bash" : "/bin/sh",
      ...(input.tty ? { TERM: "xterm-256color" } : {}),
      ...spec.env,
      ...input.env,
    }),
    cwd: input.cwd ?? spec.workingDir,
    capabilities: makeCapabilities(spec),
    noNewPrivileges: getCapabilities(spec).length === 0,
    oomScoreAdj: limits.oomScore,
    rlimits: [
      { type: "RLIMIT_NOFILE", hard: limits.openFiles, soft: limits.openFiles },
      { type: "RLIMIT_CORE", hard: 0, soft: 0 },
      { type: "RLIMIT_SIGPENDING", hard: limits.pendingSignals, soft: limits.pendingSignals },
      { type: "RLIMIT_MSGQUEUE", hard: limits.queueBytes, soft: limits.queueBytes },
    ],
  };
}

export type ProcessConfig = ReturnType<typeof makeProcessConfig>;
