import type { Duplex } from "node:stream";
import type { V1Pod } from "@kubernetes/client-node";
import { PlatformError } from "@sandpiper/core/errors";
import type {
  DriverSandbox,
  ExecRequest,
  FileBounds,
  KnownIds,
  PreparedSpec,
  PrepareOptions,
  SandboxDriver,
  SandboxProcess,
  SandboxSpec,
  SandboxUsage,
  StartRequest,
} from "../../driver.ts";
import { Registries } from "../../specs/registries.ts";
import { checkCommand, idPattern } from "../common/commands.ts";
import { toFencedArgv } from "../common/fence.ts";
import { loadInstallationId } from "../common/installation-id.ts";
import { chooseKind, type SandboxKind } from "./agent-sandbox.ts";
import { clusterShell, storeBusybox } from "./busybox-program.ts";
import { Claims } from "./claims.ts";
import { Cluster, type ClusterOptions } from "./cluster.ts";
import { Connections } from "./connections.ts";
import { loadHelper, storeHelper } from "./helper-program.ts";
import { Images } from "./images.ts";
import { annotations, labels, toSandboxName } from "./labels.ts";
import { denyNetwork } from "./network-policy.ts";
import type { PodDefaults } from "./pod-options.ts";
import { Pods } from "./pods.ts";
import { Ports } from "./ports.ts";
import { SandboxStarts } from "./sandbox-starts.ts";
import { measureUsage } from "./usage.ts";
import { VolumeCopies } from "./volume-copies.ts";
import { WarmPool } from "./warm-pool.ts";

export interface KubernetesDriverOptions extends ClusterOptions {
  /** Folder for the id of this installation and the compiled helper; created when it is missing. */
  dir: string;
  /** Name of the RuntimeClass; undefined: the default runtime of the cluster. */
  runtimeClass?: string | undefined;
  /** Name of the StorageClass; undefined: the default class of the cluster. */
  storageClass?: string | undefined;
  /** Names of Secrets with which nodes fetch images; default: none. */
  pullSecrets?: readonly string[];
  /** Objects that run sandboxes. Default: auto. */
  kind?: SandboxKind | undefined;
  /** True: root in a sandbox is not root of the node. Default: true. */
  userNamespaces?: boolean;
  /**
   * Name of the installation, `[a-z0-9]{1,12}`. Servers with the same name share their sandboxes.
   * Undefined: the name is an id from `dir`.
   */
  installation?: string | undefined;
  /** Maximum time until a pod runs, with the fetch of its image, ms. Default: 5 minutes. */
  startTimeoutMs?: number;
  /** Number of warm pods for each kind of sandbox that was started in the last hour. Default: 0. */
  warmPods?: number | undefined;
  /** Registries whose images nodes may fetch; default: Docker Hub. */
  registries?: Registries | undefined;
}

/** The parts of the driver that `open` creates. */
interface Opened {
  pods: Pods;
  claims: Claims;
  images: Images;
  copies: VolumeCopies;
  connections: Connections;
  ports: Ports;
  starts: SandboxStarts;
  warmPool: WarmPool;
  installation: string;
}

const unbounded: FileBounds = { diskBytes: Number.MAX_SAFE_INTEGER, files: Number.MAX_SAFE_INTEGER };

/** Grace period of a deleted pod, s. The helper ends all processes of the pod after one second. */
const graceSeconds = 2;

/** Runs sandboxes as pods of a Kubernetes cluster, and finds them again by their labels. */
export class KubernetesDriver implements SandboxDriver {
  readonly name = "kubernetes";
  readonly #options: KubernetesDriverOptions;
  #opened: Opened | undefined;
  #shell: string[] | undefined;

  constructor(options: KubernetesDriverOptions) {
    this.#options = options;
  }

  get shell(): string[] | undefined {
    return this.#shell;
  }

  async open(): Promise<void> {
    const {
      dir,
      runtimeClass,
      storageClass,
      pullSecrets = [],
      userNamespaces = true,
      registries = new Registries(),
      warmPods = 0,
    } = this.#options;
    const cluster = new Cluster(this.#options);
    const installation = this.#options.installation ?? loadInstallationId(dir);
    const helper = await loadHelper(dir);
    await storeHelper(cluster, helper);
    const busyboxMaps = await storeBusybox(cluster);
    await denyNetwork(cluster, installation);
    const { configMap } = helper;
    const programs = { configMap, busyboxMaps };
    const defaults: PodDefaults = { installation, ...programs, runtimeClass, pullSecrets, userNamespaces };
    const kind = await chooseKind(cluster, this.#options.kind ?? "auto");
    const pods = new Pods(cluster, installation, { kind, startTimeoutMs: this.#options.startTimeoutMs });
    const claims = new Claims(cluster, installation, storageClass);
    const images = new Images({ cluster, pods, defaults, registries });
    const copies = new VolumeCopies({ claims, pods, defaults });
    const connections = new Connections({ cluster, claims, pods });
    const warmPool = new WarmPool({ pods, claims, images, connections, defaults }, warmPods);
    const starts = new SandboxStarts({ pods, claims, images, copies, connections, warmPool, defaults });
    const ports = new Ports(connections);
    this.#opened = { pods, claims, images, copies, connections, ports, starts, warmPool, installation };
    if (busyboxMaps.length > 0) this.#shell = clusterShell;
  }

  /** Number of warm pods to which this server is connected. */
  get waitingPods(): number {
    return this.#requireOpen().warmPool.ready;
  }

  async prepare(spec: SandboxSpec, options: PrepareOptions = {}): Promise<PreparedSpec> {
    return await this.#requireOpen().images.prepare(spec, options);
  }

  async start(request: StartRequest): Promise<void> {
    const { starts } = this.#requireOpen();
    if (!idPattern.test(request.id)) throw new PlatformError("SandboxIdInvalid", { id: request.id });
    await starts.start(request);
  }

  async exec(id: string, command: ExecRequest): Promise<SandboxProcess> {
    checkCommand(command);
    const { resident, facts, isPaused } = await this.#requireOpen().connections.get(id);
    if (isPaused) throw new PlatformError("SandboxPaused", { id });
    const { cwd = facts.workingDir, env = {}, tty } = command;
    const argv = toFencedArgv(command, this.#shell ?? ["sh"]);
    const terminal: Record<string, string> = tty ? { TERM: "xterm-256color" } : {};
    return resident.run({ argv, cwd, tty, env: { ...facts.env, ...terminal, ...env } });
  }

  async pause(id: string): Promise<void> {
    const connection = await this.#requireOpen().connections.get(id);
    if (connection.isPaused) return;
    connection.isPaused = true;
    try {
      // The mark comes before the freeze, because a resume undoes both even if the freeze failed.
      const paused = { [annotations.paused]: "yes" };
      await this.#requireOpen().pods.change(connection.name, { annotations: paused });
      await connection.resident.freeze();
    } catch (cause) {
      connection.isPaused = false;
      await connection.resident.thaw().catch(() => {});
      throw cause instanceof PlatformError ? cause : new PlatformError("PauseFailed", { id }, { cause });
    }
  }

  async resume(id: string): Promise<void> {
    const connection = await this.#requireOpen().connections.get(id);
    if (!connection.isPaused) return;
    try {
      await connection.resident.thaw();
    } catch (cause) {
      throw new PlatformError("ResumeFailed", { id }, { cause });
    }
    const running = { [annotations.paused]: null };
    await this.#requireOpen().pods.change(connection.name, { annotations: running });
    connection.isPaused = false;
  }

  /** Removes the pod. The claim with the files stays. */
  async stop(id: string): Promise<void> {
    const { pods, claims, connections } = this.#requireOpen();
    if (!idPattern.test(id)) return;
    const claim = await claims.findSandbox(id);
    if (claim) await pods.sandboxes.stop(claim.metadata!.name!, graceSeconds);
    connections.close(id);
  }

  async remove(id: string): Promise<void> {
    const { pods, claims, connections, installation } = this.#requireOpen();
    if (!idPattern.test(id)) return;
    const found = await claims.list(labels.sandbox, id);
    const names = new Set([...found.map(({ metadata }) => metadata!.name!), toSandboxName(installation, id)]);
    // The claims are removed first, because a sandbox without a claim no longer exists.
    for (const name of names) await claims.remove(name);
    for (const name of names) await pods.sandboxes.remove(name);
    connections.close(id);
  }

  async list(): Promise<DriverSandbox[]> {
    const opened = this.#requireOpen();
    const [claims, pods] = await Promise.all([opened.claims.list(labels.sandbox), opened.pods.list()]);
    const states = new Map(pods.map((pod) => [pod.metadata!.name!, stateOf(pod)]));
    return claims.map(({ metadata }) => ({
      id: metadata!.labels![labels.sandbox]!,
      state: states.get(metadata!.name!) ?? "stopped",
    }));
  }

  /** Copies the files of the volume. The time depends on their size; processes stop until then. */
  async snapshot(id: string, snapshotId: string): Promise<void> {
    if (!idPattern.test(snapshotId)) throw new PlatformError("SnapshotIdInvalid", { id: snapshotId });
    await this.#requireOpen().starts.save(id, snapshotId);
  }

  async removeSnapshot(snapshotId: string): Promise<void> {
    if (idPattern.test(snapshotId)) await this.#requireOpen().copies.remove(snapshotId);
  }

  async snapshots(): Promise<string[]> {
    return await this.#requireOpen().copies.list();
  }

  async connect(id: string, port: number): Promise<Duplex> {
    return await this.#requireOpen().ports.connect(id, port);
  }

  async listen(id: string, port: number, accept: (connection: Duplex) => void): Promise<{ close(): void }> {
    return await this.#requireOpen().ports.listen(id, port, accept);
  }

  async usage(id: string, bounds: FileBounds = unbounded): Promise<SandboxUsage> {
    const { connections, pods, claims } = this.#requireOpen();
    const claim = await claims.findSandbox(id);
    if (!claim) throw new PlatformError("UnknownSandbox", { id });
    const pod = await pods.find(claim.metadata!.name!);
    if (pod && stateOf(pod) !== "stopped") return await measureUsage(await connections.get(id), bounds);
    return { diskBytes: 0, files: 0, isPartial: true, memoryBytes: 0, cpuMs: 0, pids: 0 };
  }

  async snapshotBytes(): Promise<number> {
    return 0;
  }

  async uncountedBytes(): Promise<number> {
    return 0;
  }

  async reap(known: KnownIds): Promise<void> {
    const { copies, warmPool } = this.#requireOpen();
    const [sandboxes, snapshots] = await Promise.all([this.list(), copies.list()]);
    await known.refresh?.();
    for (const { id } of sandboxes) if (!known.sandboxes.has(id)) await this.remove(id);
    for (const id of snapshots) if (!known.snapshots.has(id)) await copies.remove(id);
    await copies.reap();
    await warmPool.reap();
  }

  async close(): Promise<void> {
    await this.#opened?.warmPool.close();
    this.#opened?.ports.close();
    this.#opened?.connections.closeAll();
    this.#opened = undefined;
  }

  #requireOpen(): Opened {
    if (!this.#opened) throw new PlatformError("DriverNotOpen");
    return this.#opened;
  }
}

function stateOf({ metadata, status }: V1Pod): DriverSandbox["state"] {
  if (status?.phase === "Succeeded" || status?.phase === "Failed" || metadata?.deletionTimestamp)
    return "stopped";
  return metadata?.annotations?.[annotations.paused] === undefined ? "running" : "paused";
}
