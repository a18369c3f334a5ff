import type { ErrorTexts } from "./texts.ts";

const installRuntime = "install one with `apt-get install crun` (or `runc`) and start again";

export const driversErrors = {
  SandboxFailed: {
    SandboxIdInvalid: '"{id}" is not a valid sandbox id.',
    SnapshotIdInvalid: '"{id}" is not a valid snapshot id.',
    SandboxAlreadyRunning: "The sandbox {id} is already running.",
    SandboxTurnLost:
      "The sandbox {id} is started or ended by another operation, which did not wait for this one any longer; try again.",
    DriverNotOpen: "The sandbox driver is not open.",
    RootMountFailed: "The root filesystem could not be mounted: {reason}.",
    LauncherEnded: "The thread that starts sandboxes has ended; try again.",
    PauseFailed: "The processes of the sandbox {id} did not freeze.",
    ResumeFailed: "The processes of the sandbox {id} did not resume.",
    SnapshotLimit: "This sandbox has reached the limit of {max} snapshots on top of each other.",
    FilesNotExported: "The files of the sandbox could not be copied: {reason}.",
    FilesNotImported: "The kept files of the sandbox could not be restored: {reason}.",
    SandboxFilesNotRemoved: "Files of a sandbox could not be removed: {reason}.",
    FolderLockHeld:
      "Another process of this machine holds the lock {file} and stands still: resume or end it, then try again.",
    DiskUsageFailed: "The files of the sandbox could not be measured: {reason}.",
    CommandFailed: "The command could not be run: {reason}.",
    CommandFenced:
      "The command was not run: another server owns its conversation now (this one had the epoch {epoch}).",
    RuntimeUnusable: ({ runtime }: { runtime: string }) =>
      `${runtime} does not run here as an OCI runtime; ${installRuntime}.`,
    RuntimeMissing: `No OCI runtime is installed; ${installRuntime}.`,
    CrunBlocked:
      "crun does not work while /sys/fs/cgroup/unified is visible with cgroup v1; start the server through scripts/isolate, or install runc with `apt-get install runc`.",
    RuntimeFailed: "{runtime} could not {action} the sandbox: {reason}.",
    SeccompProfileMissing:
      "The system call filter {path} is missing; install it with `apt-get install {name}`.",
    SeccompArchUnknown: "There is no system call filter for the architecture {arch}.",
    SeccompIneffective: "The kernel did not accept the system call filter; it needs CONFIG_SECCOMP_FILTER.",
    TmpfsMissing:
      "Sandboxes need a tmpfs that the server may write: mount one at /dev/shm, or remove another user's {name} there.",
    DockerInitMissing: "The docker driver needs a static init: install it with `apt-get install catatonit`.",
    DockerSeccompOff: "The container engine filters no system calls: enable seccomp in its configuration.",
    DockerPortsUnavailable:
      "Ports of a sandbox can be reached only when the container engine is on the same machine as the server and the server runs as root.",
    InstallationFileDamaged: "The file {path} is damaged: it must hold 12 hexadecimal digits.",
    EngineTimeout: "The container engine at {address} did not answer within {seconds} s.",
    EngineUnreachable:
      "The container engine at {address} cannot be reached ({reason}): start it, or set SANDPIPER_DOCKER_HOST to its address.",
    EngineRefused: "The container engine could not {action}: {reason}.",
    EngineImageRemoved: "The engine no longer has the image of the sandbox: {reason}.",
    ClusterConfigUnreadable:
      "The kubeconfig {path} cannot be used ({reason}): set SANDPIPER_KUBECONFIG to the path of another one.",
    ClusterUnknown:
      "No Kubernetes cluster is configured: set SANDPIPER_KUBECONFIG, or run the server in a pod of the cluster with a service account.",
    ClusterUnreachable:
      "The Kubernetes API server at {address} cannot be reached ({reason}): try again later.",
    ClusterUnauthorized:
      "The Kubernetes API server at {address} does not accept the server's credentials: renew those in its kubeconfig.",
    ClusterForbidden:
      "The server may not {action} in the cluster ({reason}): `sandpiper doctor` lists the rights that it needs.",
    ClusterQuotaFull:
      "A quota of the cluster is full ({reason}): remove sandboxes, or let the operator raise the quota.",
    ClusterRefused: "The Kubernetes API server could not {action}: {reason}.",
    HelperNotCompiled:
      "The helper of the kubernetes driver could not be compiled ({reason}): install a C compiler with `apt-get install gcc libc6-dev`.",
    HelperTooLarge: "The helper of the kubernetes driver has {bytes} bytes, more than a ConfigMap holds.",
    AgentSandboxMissing:
      "The cluster has no {plural} of {group}/{version}: install agent-sandbox, or set SANDPIPER_KUBERNETES_KIND=pod.",
    AgentSandboxSilent:
      "The controller of agent-sandbox made no pod within {seconds} s: check that the controller runs, or set SANDPIPER_KUBERNETES_KIND=pod.",
    PodUnschedulable: "No node of the cluster takes the sandbox: {reason}.",
    PodNotStarted: "The cluster could not start the sandbox: {reason}.",
    PodStartTimeout: "The pod of the sandbox did not start within {seconds} s.",
    PodRemoved: "The pod of the sandbox was removed while it started; try again.",
    PodNotRemoved: "The pod of the sandbox did not end within {seconds} s.",
    PodNotReached: "The pod of the sandbox cannot be reached: {reason}.",
    PodFilesFailed: "Files could not be written into the sandbox: {reason}.",
    ClaimExists: "The volume claim {name} of an earlier sandbox has not been removed yet; try again later.",
    StorageClassMissing:
      "The cluster has no storage class {name}: set SANDPIPER_KUBERNETES_STORAGE_CLASS to one of `kubectl get storageclass`.",
    StorageClassNoDefault:
      "The cluster has no default storage class: set SANDPIPER_KUBERNETES_STORAGE_CLASS to one of `kubectl get storageclass`.",
    VolumeNotBound:
      "The cluster made no volume for the sandbox within {seconds} s: `kubectl describe persistentvolumeclaim` says why.",
    CopyRuns: "The files of this snapshot are being copied already.",
    CopyFailed: "The files of the sandbox could not be copied: {reason}.",
  },
  SandboxNotRunning: {
    SandboxInactive: "The sandbox {id} is not running; start or resume it first.",
    SandboxPaused: "The sandbox {id} is paused; resume it first.",
    SandboxProcessesEnded: "The processes of the sandbox {id} have ended; start it again.",
    SandboxNetworkGone: "The processes of the sandbox have ended; start it again.",
  },
  InvalidParameter: {
    CommandEmpty: "A command needs at least one word.",
    CommandHasNul: "A command must not contain NUL characters.",
  },
  PortUnreachable: {
    PortInUse: "Port {port} inside the sandbox is in use.",
    PortNotAccepting: "The program on port {port} inside the sandbox accepts no connections.",
    PortNotListening:
      "Nothing listens on port {port} inside the sandbox: start a server there on 127.0.0.1 or 0.0.0.0.",
  },
  SandboxSpecUnusable: {
    HostFolderIsLink: "{path} is a link in a host sandbox; choose another folder.",
    RootFolderNeedsRoot: "A folder as root needs a server that runs as root; use an image instead.",
    RootFolderRelative: "The folder {path} is not an absolute path.",
    RootFolderIsFile: "{path} is not a folder.",
    RootFolderMissing: "The folder {path} does not exist.",
    RootFolderUnreadable: "The folder {path} cannot be read by the server.",
    RootFolderHasServerData:
      "The folder {path} holds the server's own data: choose one with a root filesystem only.",
    RootFolderUnlikely: "The folder {path} does not look like a root filesystem: it has none of {expected}.",
    ImageToolMissing:
      "Images need the program {tool}: install it with `apt-get install skopeo umoci util-linux`.",
    ImageDigestWrong:
      "The image {name} does not have the digest {digest}: it was changed, or the digest is wrong.",
    ImageFileMissing: "{name} does not exist.",
    ImageFileUnreadable: "{name} cannot be read as an image: {reason}.",
    ImageInvalid: "{name} is not an image that can be used here: {reason}.",
    ImageSystemWrong: "The image {name} is made for {system}, not for linux.",
    ImageArchitectureWrong: "The image {name} is made for {found}, not for this machine ({architecture}).",
    ImageArchitectureMissing: "The image {name} does not exist for this machine's architecture.",
    ImageEnvironmentTooLarge: "The environment of the image {name} is larger than 64 KB.",
    ImageUserInvalid: "The user {user} of {place} must be a name or uid, optionally with :group.",
    ImageUserMissing: "There is no user {user} in /etc/passwd of {place}.",
    ImageGroupMissing: "There is no group {group} in /etc/group of {place}.",
    ImageIdOutOfRange: "The user or group id {id} of {place} is not between 0 and {maxId}.",
    ImageFetchFailed: "The image {name} cannot be fetched: {reason}.",
    ImageUnpackFailed: "The image {name} cannot be unpacked: {reason}.",
    ImageDownloadStalled: "The download of {name} made no progress for {seconds} s: try again.",
    ImageTooLarge:
      "The image {name} unpacks to more than the {max} that this server takes: choose a smaller one, or the operator raises SANDPIPER_MAX_IMAGE.",
    ImageTooManyFiles: "The image {name} has more than {max} files and folders: choose a smaller one.",
    ImageTooDeep: "The image {name} has a path of more than {max} names: choose another one.",
    ImageRemoved: "The image {image} is not on this machine any more: make a new sandbox.",
    RegistryUnreachable: "The registry {registry} cannot be reached: {reason}.",
    RegistryBusy: "The registry {registry} refuses further requests for now: try later.",
    RegistryDenied:
      "The registry {registry} refuses access to {name}: it does not exist, or needs other credentials than those in SANDPIPER_REGISTRY_AUTH.",
    RegistryImageMissing: "The registry {registry} has no image {name}.",
    RegistryPlainHttp:
      "The registry {registry} speaks plain HTTP, which is accepted from loopback addresses only.",
    RegistryUntrusted: "The certificate of the registry {registry} is not trusted here: {reason}.",
    RegistryAddressPrivate:
      "{host} is a private or reserved address, so no image is fetched from there: the operator can name it in SANDPIPER_REGISTRIES, or its range in SANDPIPER_OUTBOUND_PRIVATE.",
    RegistryNotAllowed:
      "Images of the registry {registry} are not allowed here: the operator names the registries in SANDPIPER_REGISTRIES ({allowed}).",
    EngineRegistryUnchecked:
      "The container engine asks registries by itself, and its requests cannot be checked: the operator can name {registry} in SANDPIPER_REGISTRIES, or pull the image into the engine.",
    RegistryAuthUnreadable: "The file with registry credentials {path} cannot be read: {reason}.",
    DockerNeedsImage:
      "The docker driver starts sandboxes from images only, not from {given}: give the spec an image, or use the oci driver.",
    EngineImageSource:
      "The docker driver takes images from registries and from its engine: load {image} into the engine and use its name there.",
    EngineImageInvalid: "The engine does not accept {image} as an image reference: {reason}.",
    EngineImageMissing: "The engine has no image {image}.",
    EnginePullInterrupted: "The engine stopped while it fetched {image}: try again.",
    ClusterNeedsImage:
      "The kubernetes driver starts sandboxes from images only, not from {given}: give the spec an image, or use the oci driver.",
    ClusterImageSource:
      "The kubernetes driver takes images from registries only: push {image} to a registry that the cluster reaches.",
    ClusterImageFailed: "The cluster cannot fetch the image {image}: {reason}.",
    EngineRegistryPlainHttp:
      "The registry {registry} speaks plain HTTP: allow it as an insecure registry in the engine's configuration.",
  },
  StorageFull: {
    ImageDiskFull: "There is not enough disk space for the image {name}: free some in the data folder.",
  },
} as const satisfies ErrorTexts;
