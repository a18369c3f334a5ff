import type { V1Pod } from "@kubernetes/client-node";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Claims } from "./claims.ts";
import type { Cluster } from "./cluster.ts";
import { openExecStream } from "./exec-stream.ts";
import { helperPath } from "./helper-program.ts";
import { annotations, readFacts, toSandboxName } from "./labels.ts";
import { containerName, helperIdentity, type PodFacts } from "./pod-options.ts";
import type { Pods } from "./pods.ts";
import { Resident } from "./resident.ts";

/** A sandbox whose helper can be asked. */
export interface Connection {
  resident: Resident;
  facts: PodFacts;
  isPaused: boolean;
}

/** One connection to the helper of each running sandbox, opened when it is needed. */
export class Connections {
  readonly #cluster: Cluster;
  readonly #claims: Claims;
  readonly #pods: Pods;
  readonly #installation: string;
  readonly #open = new Map<string, Promise<Connection>>();

  constructor(parts: { cluster: Cluster; claims: Claims; pods: Pods; installation: string }) {
    this.#cluster = parts.cluster;
    this.#claims = parts.claims;
    this.#pods = parts.pods;
    this.#installation = parts.installation;
  }

  /** Connects to a pod that runs. Throws SandboxFailed. */
  async connect(id: string, pod: V1Pod): Promise<Connection> {
    this.close(id);
    return await this.#keep(id, this.#connect(pod));
  }

  /** Throws SandboxNotFound for an unknown sandbox, SandboxNotRunning for a stopped one. */
  async get(id: string): Promise<Connection> {
    return await (this.#open.get(id) ?? this.#keep(id, this.#find(id)));
  }

  /** Ends the connection of a sandbox and what it carries. */
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
    const name = toSandboxName(this.#installation, id);
    const pod = await this.#pods.find(name);
    if (pod?.status?.phase === "Running" && !pod.metadata?.deletionTimestamp) {
      try {
        return await this.#connect(pod);
      } catch (error) {
        if (!(await this.#pods.findEnded(pod))) throw error;
      }
      throw new PlatformError("SandboxProcessesEnded", { id });
    }
    if (!pod && !(await this.#claims.find(name))) throw new PlatformError("UnknownSandbox", { id });
    throw new PlatformError("SandboxProcessesEnded", { id });
  }

  async #connect(pod: V1Pod): Promise<Connection> {
    const facts = readFacts<PodFacts>(pod.metadata);
    if (!facts) throw new PlatformError("PodNotReached", { reason: "the pod was not made by this server" });
    const argv = [helperPath, "resident", ...helperIdentity(facts)];
    const program = { container: containerName, argv };
    try {
      const resident = await Resident.open((listener) =>
        openExecStream(this.#cluster, pod.metadata!.name!, program, listener),
      );
      return { resident, facts, isPaused: pod.metadata?.annotations?.[annotations.paused] !== undefined };
    } catch (cause) {
      throw new PlatformError("PodNotReached", { reason: errorText(cause) }, { cause });
    }
  }
}
