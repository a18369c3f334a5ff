import type {
  V1Container,
  V1ContainerStatus,
  V1Pod,
  V1ResourceRequirements,
  V1SecurityContext,
} from "@kubernetes/client-node";
import type { PreparedSpec, SandboxUser } from "../../driver.ts";
import { type Capability, usualCapabilities } from "../../specs/capabilities.ts";
import { insideFolder } from "../common/busybox.ts";
import { makeBaseEnvironment } from "../common/isolation.ts";
import { programsPath } from "./busybox-program.ts";
import { helperPath } from "./helper-program.ts";
import { annotations, labels } from "./labels.ts";
import type { MountedFolder } from "./volume-folders.ts";

/** Name of the container that runs a sandbox. */
export const containerName = "sandbox";

/** Capabilities with which the helper prepares folders and becomes the user. Commands lack them. */
const helperCapabilities = ["CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETPCAP", "SETUID"];

/** Numbers of the kernel's capabilities. */
const capabilityNumbers: Record<Capability, number> = {
  CHOWN: 0,
  DAC_OVERRIDE: 1,
  FOWNER: 3,
  FSETID: 4,
  KILL: 5,
  SETGID: 6,
  SETUID: 7,
  SETPCAP: 8,
  NET_BIND_SERVICE: 10,
  SYS_CHROOT: 18,
  SETFCAP: 31,
};

/** Facts about a pod that its commands need. The annotations of the pod contain them. */
export interface PodFacts {
  user: SandboxUser;
  workingDir: string;
  /** Variables of the spec, and the variables that every sandbox has. */
  env: Record<string, string>;
  capabilities: readonly Capability[];
  /** Maximum number of processes of the user; 0: only the limit of the cluster holds. */
  processes: number;
}

/** Options that all pods of an installation have in common. */
export interface PodDefaults {
  installation: string;
  /** Name of the ConfigMap with the helper. */
  configMap: string;
  /**
   * Names of the ConfigMaps with the parts of busybox; empty where sandboxes use their own shell.
   */
  busyboxMaps: readonly string[];
  runtimeClass: string | undefined;
  /** Names of Secrets with which nodes fetch images. */
  pullSecrets: readonly string[];
  /** True: root in a pod is not root of the node (`hostUsers: false`). */
  userNamespaces: boolean;
}

export function toPodFacts(spec: PreparedSpec, { userNamespaces }: PodDefaults): PodFacts {
  return {
    user: spec.user,
    workingDir: spec.workingDir,
    env: { ...makeBaseEnvironment(spec), ...spec.env },
    capabilities: spec.capabilities ?? (userNamespaces ? usualCapabilities : []),
    // Without a user namespace, the limit would count the user's processes on the whole node.
    processes: userNamespaces ? spec.limits.pids : 0,
  };
}

/** Returns arguments of the helper: user, group, capabilities as a number, limit of processes. */
export function helperIdentity({ user, capabilities, processes }: PodFacts): string[] {
  const bits = capabilities.reduce((sum, name) => sum + 2 ** capabilityNumbers[name], 0);
  return [user.uid, user.gid, bits, processes].map(String);
}

export interface SandboxPodInput {
  name: string;
  /** Labels besides the label of the installation. */
  labels: Record<string, string>;
  hostname: string;
  spec: PreparedSpec;
  claim: string;
  folders: MountedFolder[];
  /** False: the folders do not have the image's files yet. */
  isSeeded: boolean;
}

/** Options of the container that runs the sandbox. Another container may only copy files. */
export function sandboxStatus({ status }: V1Pod): V1ContainerStatus | undefined {
  return status?.containerStatuses?.find(({ name }) => name === containerName);
}

/** Makes the pod of a sandbox. It has no token, and no network but what its policy allows. */
export function makeSandboxPod(
  { name, labels: own, hostname, spec, claim, folders, isSeeded }: SandboxPodInput,
  defaults: PodDefaults,
): V1Pod {
  const facts = toPodFacts(spec, defaults);
  const { installation } = defaults;
  return makePod(
    {
      name,
      labels: { ...own, [labels.installation]: installation },
      annotations: { [annotations.facts]: JSON.stringify(facts) },
      hostname,
      image: imageOf(spec),
      command: [
        helperPath,
        "first",
        ...helperIdentity(facts),
        facts.workingDir,
        facts.user.home,
        ...(spec.command ?? []),
      ],
      env: spec.command ? facts.env : {},
      resources: makeResources(spec),
      security: {
        runAsUser: 0,
        runAsGroup: 0,
        allowPrivilegeEscalation: facts.capabilities.length > 0,
        capabilities: { drop: ["ALL"], add: [...new Set([...helperCapabilities, ...facts.capabilities])] },
      },
      claims: { [claim]: folders },
      busyboxMaps: defaults.busyboxMaps,
      ...(isSeeded ? {} : { seed: { folders, user: spec.user } }),
    },
    defaults,
  );
}

export interface PodInput {
  name: string;
  labels: Record<string, string>;
  annotations?: Record<string, string>;
  hostname?: string;
  image: string;
  command: string[];
  env?: Record<string, string>;
  resources?: V1ResourceRequirements;
  security: V1SecurityContext;
  /** ConfigMaps with the parts of a program that the first process joins. */
  busyboxMaps?: readonly string[];
  /** Mounted folders by the name of their claim. */
  claims?: Record<string, MountedFolder[]>;
  /** Folders of the first claim that get the image's files, and the user who owns them. */
  seed?: { folders: MountedFolder[]; user: SandboxUser };
}

const programsMount = { name: "programs", mountPath: programsPath };
const helperMount = { name: "helper", mountPath: insideFolder, readOnly: true };

/** Path of the volume in the container that copies an image's files. */
const seedPath = "/run/sandpiper-volume";

/**
 * A second container of the same image, in which no volume hides the image's files: it copies them
 * while the first one starts.
 */
function makeSeedContainer({ folders, user }: NonNullable<PodInput["seed"]>, image: string): V1Container {
  const pairs = folders.flatMap(({ path, subPath }) => [path, `${seedPath}/${subPath}`]);
  return {
    name: "seed",
    image,
    imagePullPolicy: "IfNotPresent",
    command: [helperPath, "seed", String(user.uid), String(user.gid), ...pairs],
    resources: {
      limits: { memory: "128Mi", cpu: "1" },
      requests: { memory: "16Mi", cpu: "10m" },
    },
    securityContext: {
      runAsUser: 0,
      runAsGroup: 0,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"], add: ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"] },
    },
    volumeMounts: [helperMount, { name: "files-0", mountPath: seedPath }],
  };
}

/** Makes a pod with the isolation that docs/understand/internals/kubernetes.md describes. */
export function makePod(
  input: PodInput,
  { configMap, runtimeClass, pullSecrets, userNamespaces }: PodDefaults,
): V1Pod {
  const { name, labels: own, annotations: notes = {}, claims = {}, busyboxMaps = [] } = input;
  const sources = [configMap, ...busyboxMaps].map((one) => ({ configMap: { name: one } }));
  const hasPrograms = busyboxMaps.length > 0;
  const volumes = Object.keys(claims).map((claimName, index) => ({
    name: `files-${index}`,
    persistentVolumeClaim: { claimName },
  }));
  const mounts = Object.values(claims).flatMap((folders, index) =>
    folders.map(({ path, subPath }) => ({
      name: `files-${index}`,
      mountPath: path,
      ...(subPath ? { subPath } : {}),
    })),
  );
  return {
    metadata: { name, labels: { ...own, "app.kubernetes.io/part-of": "sandpiper" }, annotations: notes },
    spec: {
      ...(input.hostname ? { hostname: input.hostname } : {}),
      ...(runtimeClass ? { runtimeClassName: runtimeClass } : {}),
      ...(pullSecrets.length > 0 ? { imagePullSecrets: pullSecrets.map((name) => ({ name })) } : {}),
      ...(userNamespaces ? { hostUsers: false } : {}),
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 3,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      // The egress proxy resolves names, so a sandbox needs no DNS.
      dnsPolicy: "None",
      dnsConfig: { nameservers: ["127.0.0.1"] },
      nodeSelector: {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": process.arch === "x64" ? "amd64" : process.arch,
      },
      securityContext: { seccompProfile: { type: "RuntimeDefault" } },
      volumes: [
        { name: "helper", projected: { defaultMode: 0o555, sources } },
        ...(hasPrograms ? [{ name: "programs", emptyDir: {} }] : []),
        ...volumes,
      ],
      containers: [
        ...(input.seed ? [makeSeedContainer(input.seed, input.image)] : []),
        {
          name: containerName,
          image: input.image,
          imagePullPolicy: "IfNotPresent",
          command: input.command,
          workingDir: "/",
          env: Object.entries(input.env ?? {}).map(([key, text]) => ({
            name: key,
            value: keepDollars(text),
          })),
          ...(input.resources ? { resources: input.resources } : {}),
          securityContext: input.security,
          volumeMounts: [
            helperMount,
            ...(hasPrograms ? [programsMount] : []),
            // Outer folders are mounted first.
            ...mounts.toSorted((a, b) => a.mountPath.length - b.mountPath.length),
          ],
        },
      ],
    },
  };
}

export function imageOf({ root }: PreparedSpec): string {
  return root.kind === "image" ? root.reference : "";
}

/** Returns limits, and requests of a part of them, because sandboxes mostly wait. */
function makeResources({ limits }: PreparedSpec): V1ResourceRequirements {
  const { memoryBytes, cpus, diskBytes } = limits;
  return {
    limits: {
      memory: String(memoryBytes),
      cpu: `${Math.max(1, Math.round(cpus * 1_000))}m`,
      "ephemeral-storage": String(diskBytes),
    },
    requests: {
      memory: String(Math.ceil(memoryBytes / 4)),
      cpu: `${Math.max(1, Math.round(cpus * 100))}m`,
      "ephemeral-storage": "0",
    },
  };
}

/** Escapes `$` in a value, because the cluster replaces `$(NAME)` in values. */
function keepDollars(text: string): string {
  return text.replaceAll("$(", "$$$$(");
}
