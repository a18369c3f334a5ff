import type { V1Pod } from "@kubernetes/client-node";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Claims } from "./claims.ts";
import type { Cluster } from "./cluster.ts";
import { openExecStream } from "./exec-stream.ts";
import { helperPath } from "./helper-program.ts";
import { annotations, readFacts } from "./labels.ts";
import { containerName, helperIdentity, type PodFacts } from "./pod-options.ts";
import type { Pods } from "./pods.ts";
import { Resident } from "./resident.ts";

/** A sandbox whose helper can be asked. */
export interface Connection {
  /** Name of the sandbox's pod. */
  name: string;
  resident: Resident;
  facts: PodFacts;
  isPaused: boolean;
}

/** Keeps one connection to the helper of each running sandbox, and opens it when it is needed. */
export class Connections {
  readonly #cluster: Cluster;
  readonly #claims: Claims;
  readonly #pods: Pods;
  readonly #open = new Map<string, Promise<Connection>>();

  constructor(parts: { cluster: Cluster; claims: Claims; pods: Pods }) {
    this.#cluster = parts.cluster;
    this.#claims = parts.claims;
    this.#pods = parts.pods;
  }

  /** Connects to the running pod of a sandbox. Throws SandboxFailed. */
  async connect(id: string, pod: V1Pod): Promise<Connection> {
    this.close(id);
    return await this.#keep(id, this.open(pod));
  }

  /** Takes over an open connection to a sandbox's pod. */
  adopt(id: string, connection: Connection): void {
    this.close(id);
    this.#keep(id, Promise.resolve(connection));
  }

  /**
   * Gets the connection of a sandbox. Throws SandboxNotFound, and SandboxNotRunning when stopped.
   */
  async get(id: string): Promise<Connection> {
    return await (this.#open.get(id) ?? this.#keep(id, this.#find(id)));
  }

  /** Ends the connection of a sandbox, with the commands and TCP connections that it carries. */
  close(id: string): void {
    const open = this.#open.get(id);
    this.#open.delete(id);
    open?.then(
      ({ resident }) => resident.close(),
      () => {},
    );
  }

  closeAll(): void {
    for (const id of [...this.#open.keys()]) this.close(id);
  }

  #keep(id: string, work: Promise<Connection>): Promise<Connection> {
    this.#open.set(id, work);
    const forget = () => this.#open.get(id) === work && this.#open.delete(id);
    work.then(({ resident }) => resident.onEnd(forget), forget);
    return work;
  }

  async #find(id: string): Promise<Connection> {
    const claim = await this.#claims.findSandbox(id);
    const pod = claim && (await this.#pods.find(claim.metadata!.name!));
    if (pod?.status?.phase === "Running" && !pod.metadata?.deletionTimestamp) {
      try {
        return await this.open(pod);
      } catch (error) {
        if (!(await this.#pods.findEnded(pod))) throw error;
      }
      throw new PlatformError("SandboxProcessesEnded", { id });
    }
    if (!claim) throw new PlatformError("UnknownSandbox", { id });
    throw new PlatformError("SandboxProcessesEnded", { id });
  }

  /** Opens a connection to a pod. The caller closes it. Throws SandboxFailed. */
  async open(pod: V1Pod): Promise<Connection> {
    const facts = readFacts<PodFacts>(pod.metadata);
    if (!facts) throw new PlatformError("PodNotReached", { reason: "the pod was not made by this server" });
    const argv = [helperPath, "resident", ...helperIdentity(facts)];
    const program = { container: containerName, argv };
    try {
      const resident = await Resident.open((listener) =>
        openExecStream(this.#cluster, pod.metadata!.name!, program, listener),
      );
      return {
        name: pod.metadata!.name!,
        resident,
        facts,
        isPaused: pod.metadata?.annotations?.[annotations.paused] !== undefined,
      };
    } catch (cause) {
      throw new PlatformError("PodNotReached", { reason: errorText(cause) }, { cause });
    }
  }
}
