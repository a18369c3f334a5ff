import type { ErrorTexts } from "./texts.ts";

type Id = { id: string };
type Reason = { reason: string };
type Name = { name: string };
type Path = { path: string };
type Port = { port: number };
type Registry = { registry: string };
type Image = { image: string };

const installRuntime = "install one with `apt-get install crun` (or `runc`) and start again";

/** Sandboxes of both drivers. */
const sandboxes = {
  SandboxIdInvalid: ["SandboxFailed", ({ id }: Id) => `"${id}" is not a valid sandbox id.`],
  SnapshotIdInvalid: ["SandboxFailed", ({ id }: Id) => `"${id}" is not a valid snapshot id.`],
  SandboxAlreadyRunning: ["SandboxFailed", ({ id }: Id) => `The sandbox ${id} is already running.`],
  SandboxInactive: [
    "SandboxNotRunning",
    ({ id }: Id) => `The sandbox ${id} is not running; start or resume it first.`,
  ],
  SandboxPaused: ["SandboxNotRunning", ({ id }: Id) => `The sandbox ${id} is paused; resume it first.`],
  SandboxProcessesEnded: [
    "SandboxNotRunning",
    ({ id }: Id) => `The processes of the sandbox ${id} have ended; start it again.`,
  ],
  SandboxNetworkGone: ["SandboxNotRunning", "The processes of the sandbox have ended; start it again."],
  DriverNotOpen: ["SandboxFailed", "The sandbox driver is not open."],
  RootMountFailed: [
    "SandboxFailed",
    ({ reason }: Reason) => `The root filesystem could not be mounted: ${reason}.`,
  ],
  LauncherEnded: ["SandboxFailed", "The thread that starts sandboxes has ended; try again."],
  PauseFailed: ["SandboxFailed", ({ id }: Id) => `The processes of the sandbox ${id} did not freeze.`],
  ResumeFailed: ["SandboxFailed", ({ id }: Id) => `The processes of the sandbox ${id} did not resume.`],
  SnapshotLimit: [
    "SandboxFailed",
    ({ max }: { max: number }) =>
      `This sandbox has reached the limit of ${max} snapshots on top of each other.`,
  ],
  SandboxFilesNotRemoved: [
    "SandboxFailed",
    ({ reason }: Reason) => `Files of a sandbox could not be removed: ${reason}.`,
  ],
  DiskUsageFailed: [
    "SandboxFailed",
    ({ reason }: Reason) => `The files of the sandbox could not be measured: ${reason}.`,
  ],
  CommandEmpty: ["InvalidParameter", "A command needs at least one word."],
  CommandHasNul: ["InvalidParameter", "A command must not contain NUL characters."],
  CommandFailed: ["SandboxFailed", ({ reason }: Reason) => `The command could not be run: ${reason}.`],
  PortInUse: ["PortUnreachable", ({ port }: Port) => `Port ${port} inside the sandbox is in use.`],
  PortNotAccepting: [
    "PortUnreachable",
    ({ port }: Port) => `The program on port ${port} inside the sandbox takes no connections.`,
  ],
  PortNotListening: [
    "PortUnreachable",
    ({ port }: Port) =>
      `Nothing listens on port ${port} inside the sandbox: start a server there on 127.0.0.1 or 0.0.0.0.`,
  ],
} as const satisfies ErrorTexts;

/** The machine of the OCI driver. */
const machine = {
  RuntimeUnusable: [
    "SandboxFailed",
    ({ runtime }: { runtime: string }) =>
      `${runtime} does not run here as an OCI runtime; ${installRuntime}.`,
  ],
  RuntimeMissing: ["SandboxFailed", `No OCI runtime is installed; ${installRuntime}.`],
  CrunBlocked: [
    "SandboxFailed",
    "crun does not work while /sys/fs/cgroup/unified is visible with cgroup v1; start the server through scripts/isolate, or install runc with `apt-get install runc`.",
  ],
  RuntimeFailed: [
    "SandboxFailed",
    ({ runtime, action, reason }: { runtime: string; action: string; reason: string }) =>
      `${runtime} could not ${action} the sandbox: ${reason}.`,
  ],
  SeccompProfileMissing: [
    "SandboxFailed",
    ({ path, name }: Path & Name) =>
      `The system call filter ${path} is missing; install it with \`apt-get install ${name}\`.`,
  ],
  SeccompArchUnknown: [
    "SandboxFailed",
    ({ arch }: { arch: string }) => `There is no system call filter for the architecture ${arch}.`,
  ],
  SeccompIneffective: [
    "SandboxFailed",
    "The kernel did not accept the system call filter; it needs CONFIG_SECCOMP_FILTER.",
  ],
  TmpfsMissing: [
    "SandboxFailed",
    ({ name }: Name) =>
      `Sandboxes need a tmpfs that the server may write: mount one at /dev/shm, or remove another user's ${name} there.`,
  ],
  HostFolderIsLink: [
    "SandboxSpecUnusable",
    ({ path }: Path) => `${path} is a link in a host sandbox; choose another folder.`,
  ],
  RootFolderNeedsRoot: [
    "SandboxSpecUnusable",
    "A folder as root needs a server that runs as root; use an image instead.",
  ],
  RootFolderRelative: [
    "SandboxSpecUnusable",
    ({ path }: Path) => `The folder ${path} is not an absolute path.`,
  ],
  RootFolderIsFile: ["SandboxSpecUnusable", ({ path }: Path) => `${path} is not a folder.`],
  RootFolderMissing: ["SandboxSpecUnusable", ({ path }: Path) => `The folder ${path} does not exist.`],
  RootFolderUnreadable: [
    "SandboxSpecUnusable",
    ({ path }: Path) => `The folder ${path} cannot be read by the server.`,
  ],
  RootFolderHasServerData: [
    "SandboxSpecUnusable",
    ({ path }: Path) =>
      `The folder ${path} holds the server's own data: choose one with a root filesystem only.`,
  ],
  RootFolderUnlikely: [
    "SandboxSpecUnusable",
    ({ path, expected }: Path & { expected: string }) =>
      `The folder ${path} does not look like a root filesystem: it has none of ${expected}.`,
  ],
} as const satisfies ErrorTexts;

/** Images and their registries. */
const images = {
  ImageToolMissing: [
    "SandboxSpecUnusable",
    ({ tool }: { tool: string }) =>
      `Images need the program ${tool}: install it with \`apt-get install skopeo umoci util-linux\`.`,
  ],
  ImageDiskFull: [
    "StorageFull",
    ({ name }: Name) => `There is not enough disk space for the image ${name}: free some in the data folder.`,
  ],
  ImageDigestWrong: [
    "SandboxSpecUnusable",
    ({ name, digest }: Name & { digest: string | undefined }) =>
      `The image ${name} does not have the digest ${digest}: it was changed, or the digest is wrong.`,
  ],
  ImageFileMissing: ["SandboxSpecUnusable", ({ name }: Name) => `${name} does not exist.`],
  ImageFileUnreadable: [
    "SandboxSpecUnusable",
    ({ name, reason }: Name & Reason) => `${name} cannot be read as an image: ${reason}.`,
  ],
  ImageInvalid: [
    "SandboxSpecUnusable",
    ({ name, reason }: Name & Reason) => `${name} is not an image that can be used here: ${reason}.`,
  ],
  ImageSystemWrong: [
    "SandboxSpecUnusable",
    ({ name, system }: Name & { system: string }) =>
      `The image ${name} is made for ${system}, not for linux.`,
  ],
  ImageArchitectureWrong: [
    "SandboxSpecUnusable",
    ({ name, found, architecture }: Name & { found: string; architecture: string }) =>
      `The image ${name} is made for ${found}, not for this machine (${architecture}).`,
  ],
  ImageArchitectureMissing: [
    "SandboxSpecUnusable",
    ({ name }: Name) => `The image ${name} does not exist for this machine's architecture.`,
  ],
  ImageEnvironmentTooLarge: [
    "SandboxSpecUnusable",
    ({ name }: Name) => `The environment of the image ${name} is larger than 64 KB.`,
  ],
  ImageUserInvalid: [
    "SandboxSpecUnusable",
    ({ user, place }: { user: string; place: string }) =>
      `The user ${user} of ${place} must be a name or uid, optionally with :group.`,
  ],
  ImageUserMissing: [
    "SandboxSpecUnusable",
    ({ user, place }: { user: string; place: string }) =>
      `There is no user ${user} in /etc/passwd of ${place}.`,
  ],
  ImageGroupMissing: [
    "SandboxSpecUnusable",
    ({ group, place }: { group: string; place: string }) =>
      `There is no group ${group} in /etc/group of ${place}.`,
  ],
  ImageIdOutOfRange: [
    "SandboxSpecUnusable",
    ({ id, place, maxId }: Id & { place: string; maxId: number }) =>
      `The user or group id ${id} of ${place} is not between 0 and ${maxId}.`,
  ],
  ImageFetchFailed: [
    "SandboxSpecUnusable",
    ({ name, reason }: Name & Reason) => `The image ${name} cannot be fetched: ${reason}.`,
  ],
  ImageUnpackFailed: [
    "SandboxSpecUnusable",
    ({ name, reason }: Name & Reason) => `The image ${name} cannot be unpacked: ${reason}.`,
  ],
  ImageDownloadStalled: [
    "SandboxSpecUnusable",
    ({ name, seconds }: Name & { seconds: number }) =>
      `The download of ${name} made no progress for ${seconds} s: try again.`,
  ],
  ImageRemoved: [
    "SandboxSpecUnusable",
    ({ image }: Image) => `The image ${image} is not on this machine any more: make a new sandbox.`,
  ],
  RegistryUnreachable: [
    "SandboxSpecUnusable",
    ({ registry, reason }: Registry & Reason) => `The registry ${registry} cannot be reached: ${reason}.`,
  ],
  RegistryBusy: [
    "SandboxSpecUnusable",
    ({ registry }: Registry) => `The registry ${registry} refuses further requests for now: try later.`,
  ],
  RegistryDenied: [
    "SandboxSpecUnusable",
    ({ registry, name }: Registry & Name) =>
      `The registry ${registry} refuses access to ${name}: it does not exist, or needs other credentials than those in SANDPIPER_REGISTRY_AUTH.`,
  ],
  RegistryImageMissing: [
    "SandboxSpecUnusable",
    ({ registry, name }: Registry & Name) => `The registry ${registry} has no image ${name}.`,
  ],
  RegistryPlainHttp: [
    "SandboxSpecUnusable",
    ({ registry }: Registry) =>
      `The registry ${registry} speaks plain HTTP, which is accepted from loopback addresses only.`,
  ],
  RegistryUntrusted: [
    "SandboxSpecUnusable",
    ({ registry, reason }: Registry & Reason) =>
      `The certificate of the registry ${registry} is not trusted here: ${reason}.`,
  ],
  RegistryAuthUnreadable: [
    "SandboxSpecUnusable",
    ({ path, reason }: Path & Reason) =>
      `The file with registry credentials ${path} cannot be read: ${reason}.`,
  ],
} as const satisfies ErrorTexts;

/** The container engine of the docker driver. */
const engine = {
  DockerInitMissing: [
    "SandboxFailed",
    "The docker driver needs a static init: install it with `apt-get install catatonit`.",
  ],
  DockerSeccompOff: [
    "SandboxFailed",
    "The container engine filters no system calls: enable seccomp in its configuration.",
  ],
  DockerNeedsImage: [
    "SandboxSpecUnusable",
    ({ given }: { given: string }) =>
      `The docker driver starts sandboxes from images only, not from ${given}: give the spec an image, or use the oci driver.`,
  ],
  DockerPortsUnavailable: [
    "SandboxFailed",
    "Ports of a sandbox can be reached only when the container engine is on the same machine as the server and the server runs as root.",
  ],
  InstallationFileDamaged: [
    "SandboxFailed",
    ({ path }: Path) => `The file ${path} is damaged: it must hold 12 hexadecimal digits.`,
  ],
  EngineTimeout: [
    "SandboxFailed",
    ({ address, seconds }: { address: string; seconds: number }) =>
      `The container engine at ${address} did not answer within ${seconds} s.`,
  ],
  EngineUnreachable: [
    "SandboxFailed",
    ({ address, reason }: { address: string; reason: string }) =>
      `The container engine at ${address} cannot be reached (${reason}): start it, or set SANDPIPER_DOCKER_HOST to its address.`,
  ],
  EngineRefused: [
    "SandboxFailed",
    ({ action, reason }: { action: string; reason: string }) =>
      `The container engine could not ${action}: ${reason}.`,
  ],
  EngineImageSource: [
    "SandboxSpecUnusable",
    ({ image }: Image) =>
      `The docker driver takes images from registries and from its engine: load ${image} into the engine and use its name there.`,
  ],
  EngineImageInvalid: [
    "SandboxSpecUnusable",
    ({ image, reason }: Image & Reason) =>
      `The engine does not accept ${image} as an image reference: ${reason}.`,
  ],
  EngineImageMissing: ["SandboxSpecUnusable", ({ image }: Image) => `The engine has no image ${image}.`],
  EngineImageRemoved: [
    "SandboxFailed",
    ({ reason }: Reason) => `The engine no longer has the image of the sandbox: ${reason}.`,
  ],
  EnginePullInterrupted: [
    "SandboxSpecUnusable",
    ({ image }: Image) => `The engine stopped while it fetched ${image}: try again.`,
  ],
  EngineRegistryPlainHttp: [
    "SandboxSpecUnusable",
    ({ registry }: Registry) =>
      `The registry ${registry} speaks plain HTTP: allow it as an insecure registry in the engine's configuration.`,
  ],
} as const satisfies ErrorTexts;

export const driversErrors = { ...sandboxes, ...machine, ...images, ...engine } as const;
