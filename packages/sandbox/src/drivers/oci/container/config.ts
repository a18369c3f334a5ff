import type { PreparedSpec } from "../../../driver.ts";
import { maskedPaths } from "../../common/hidden-paths.ts";
import type { ProcessRules } from "./rlimits.ts";

/** Ids that one sandbox owns: its user namespace maps 0…65535 to `idBase`…`idBase + 65535` of the host. */
export const idRangeSize = 65_536;

const initPath = "/run/init";
/** Reaps and waits; stands in for catatonit where that is not installed. */
const shellInit = ["/bin/sh", "-c", "trap : TERM; while :; do sleep 86400 & wait $!; done"];

export interface ConfigInput {
  id: string;
  spec: PreparedSpec;
  rootfs: string;
  idBase: number;
  /** What the section `linux` says about the sandbox's process group and its limits. */
  group: object;
  /** Host path of a static init, or null for the shell loop. */
  init: string | null;
  /** Bind mounts, read-only: host path and path inside. */
  binds: { source: string; destination: string; recursive?: boolean }[];
  /** `linux.seccomp` section, or the compiled filter that crun takes by annotation instead. */
  seccomp: { section: object } | { compiled: string };
  rules: ProcessRules;
}

/** The machine has some 3,000 for all sandboxes together, and each needs one now and then. */
const terminals = 128;

/** Size of /dev/shm: it keeps its memory without a process, and what is left must do to run the command that empties it. */
export function shmBytes({ limits }: PreparedSpec): number {
  return Math.min(256 * 2 ** 20, Math.floor(limits.memoryBytes / 2));
}

const noCapabilities = { bounding: [], effective: [], inheritable: [], permitted: [], ambient: [] };

/** The OCI runtime configuration (config.json) of a sandbox. */
export function runtimeConfig(input: ConfigInput): object {
  const { id, spec, idBase } = input;
  const mapping = [{ containerID: 0, hostID: idBase, size: idRangeSize }];
  const init = input.init === null ? shellInit : [initPath, "-P"];
  const binds =
    input.init === null ? input.binds : [...input.binds, { source: input.init, destination: initPath }];
  return {
    ociVersion: "1.0.2",
    process: spec.command
      ? processConfig(spec, { argv: spec.command }, input.rules)
      : {
          ...processConfig(spec, { argv: init, cwd: "/" }, input.rules),
          user: { uid: 0, gid: 0 },
          oomScoreAdj: input.rules.oomScoreAdj(0),
        },
    root: { path: input.rootfs, readonly: false },
    hostname: id,
    mounts: [
      { destination: "/proc", type: "proc", source: "proc", options: ["nosuid", "noexec", "nodev"] },
      {
        destination: "/dev",
        type: "tmpfs",
        source: "tmpfs",
        options: ["nosuid", "strictatime", "mode=755", "size=1m"],
      },
      {
        destination: "/dev/pts",
        type: "devpts",
        source: "devpts",
        options: [
          "nosuid",
          "noexec",
          "newinstance",
          "ptmxmode=0666",
          "mode=0620",
          "gid=5",
          `max=${terminals}`,
        ],
      },
      {
        destination: "/dev/shm",
        type: "tmpfs",
        source: "shm",
        options: ["nosuid", "nodev", "mode=1777", `size=${shmBytes(spec)}`],
      },
      { destination: "/sys", type: "sysfs", source: "sysfs", options: ["nosuid", "noexec", "nodev", "ro"] },
      ...binds.map(({ source, destination, recursive }) => ({
        destination,
        type: "bind",
        source,
        options: recursive ? ["rbind", "rro", "rnosuid", "rnodev"] : ["bind", "ro", "nosuid", "nodev"],
      })),
    ],
    annotations: "compiled" in input.seccomp ? { "run.oci.seccomp_bpf_data": input.seccomp.compiled } : {},
    linux: {
      uidMappings: mapping,
      gidMappings: mapping,
      ...input.group,
      namespaces: ["pid", "network", "ipc", "uts", "mount", "user", "cgroup"].map((type) => ({ type })),
      ...("section" in input.seccomp ? { seccomp: input.seccomp.section } : {}),
      maskedPaths,
      readonlyPaths: [
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

export interface ProcessInput {
  argv: string[];
  cwd?: string | undefined;
  env?: Record<string, string> | undefined;
  tty?: { cols: number; rows: number } | undefined;
}

/** The process part of a runtime configuration: the sandbox's user without capabilities. `crun exec` takes all of it from here. */
export function processConfig(spec: PreparedSpec, input: ProcessInput, rules: ProcessRules) {
  const { user } = spec;
  const env = {
    PATH: "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    HOME: user.home,
    USER: user.name,
    LOGNAME: user.name,
    SHELL: spec.root.kind === "host" ? "/bin/bash" : "/bin/sh",
    LANG: "C.UTF-8",
    ...(input.tty ? { TERM: "xterm-256color" } : {}),
    ...spec.env,
    ...input.env,
  };
  return {
    terminal: input.tty !== undefined,
    ...(input.tty ? { consoleSize: { width: input.tty.cols, height: input.tty.rows } } : {}),
    user: { uid: user.uid, gid: user.gid, umask: 0o022 },
    args: input.argv,
    env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
    cwd: input.cwd ?? spec.workingDir,
    capabilities: noCapabilities,
    noNewPrivileges: true,
    // Under memory pressure of the whole machine the sandboxes' work goes before the server.
    oomScoreAdj: rules.oomScoreAdj(500),
    rlimits: [
      { type: "RLIMIT_NOFILE", hard: rules.openFiles, soft: rules.openFiles },
      { type: "RLIMIT_CORE", hard: 0, soft: 0 },
    ],
  };
}
