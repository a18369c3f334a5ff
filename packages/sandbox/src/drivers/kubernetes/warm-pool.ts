import { createHash, randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { V1PersistentVolumeClaim, V1Pod } from "@kubernetes/client-node";
import type { PreparedSpec } from "../../driver.ts";
import type { Claims } from "./claims.ts";
import type { Connections } from "./connections.ts";
import type { Images } from "./images.ts";
import { labels } from "./labels.ts";
import { imageOf, makeSandboxPod, type PodDefaults } from "./pod-options.ts";
import type { Pods } from "./pods.ts";
import type { Resident } from "./resident.ts";
import { awaitSeeds } from "./seeds.ts";
import { chooseFolders } from "./volume-folders.ts";

/**
 * Maximum number of kinds with warm pods. Above it the pool forgets the kind started longest ago.
 */
const maxShapes = 4;
/** Time after the last start of a kind until the pool forgets the kind, ms. */
const shapeLifeMs = 3_600_000;
/** Age at which a warm pod is removed, ms. */
const maxAgeMs = 3_600_000;
/** Age at which a warm pod that does not run is removed, because its server has failed, ms. */
const maxMakingMs = 600_000;
/** Delay until the pool tries again to make a warm pod, for example after a full quota, ms. */
const retryMs = 30_000;
/**
 * Delay after a start until the pool makes missing warm pods, ms. The start and its first commands
 * do not wait behind the work for the next pod.
 */
const fillDelayMs = 500;
/** Maximum time for the removal of warm pods at the end of a server, ms. */
const closeTimeoutMs = 5_000;

/** Host name of warm pods, because the id of their later sandbox is not known. */
const hostname = "sandbox";

/** A warm pod, with an open connection to its helper. */
export interface WarmPod {
  /** Name of the pod and of its claim. */
  name: string;
  resident: Resident;
  claim: V1PersistentVolumeClaim | undefined;
}

interface Shape {
  spec: PreparedSpec;
  usedAt: number;
  ready: WarmPod[];
}

interface Parts {
  pods: Pods;
  claims: Claims;
  images: Images;
  connections: Connections;
  defaults: PodDefaults;
}

/**
 * Keeps warm pods, which have empty volumes and wait for a sandbox of their kind. A kind is an
 * image with limits, user and folders. Servers share warm pods: the server that changes the label
 * of the claim first takes the pod.
 */
export class WarmPool {
  readonly #parts: Parts;
  readonly #size: number;
  readonly #shapes = new Map<string, Shape>();
  #filling: Promise<void> | undefined;
  #isWanted = false;
  #fillTimer: NodeJS.Timeout | undefined;
  #retryAt = 0;
  /** Names of pods whose claim the last `reap` did not find among the waiting claims. */
  #taken = new Set<string>();
  /** Names of the warm pods that this server has made. */
  readonly #own = new Set<string>();
  readonly #end = new AbortController();

  /** `size`: number of warm pods of each kind; 0: none. */
  constructor(parts: Parts, size: number) {
    this.#parts = parts;
    this.#size = size;
  }

  /** Number of warm pods of all kinds to which this server is connected. */
  get ready(): number {
    return [...this.#shapes.values()].reduce((sum, shape) => sum + shape.ready.length, 0);
  }

  /** Takes a warm pod for a sandbox; undefined: there is none. Fills the pool a moment later. */
  async take(id: string, spec: PreparedSpec): Promise<WarmPod | undefined> {
    if (this.#size === 0 || spec.command !== null) return undefined;
    const key = this.#keyOf(spec);
    const shape = this.#shapes.get(key) ?? { spec, usedAt: 0, ready: [] };
    shape.usedAt = Date.now();
    // The map is in the order of the last use.
    this.#shapes.delete(key);
    this.#shapes.set(key, shape);
    try {
      for (let warm = shape.ready.shift(); warm; warm = shape.ready.shift()) {
        if (!warm.resident.isOpen) continue;
        const change = { [labels.warm]: null, [labels.sandbox]: id };
        const waits = (own: Record<string, string>) => own[labels.warm] === key;
        if (await this.#parts.claims.exchange(warm.name, waits, change, warm.claim)) {
          this.#own.delete(warm.name);
          return warm;
        }
        warm.resident.close();
      }
      return undefined;
    } finally {
      clearTimeout(this.#fillTimer);
      this.#fillTimer = setTimeout(() => this.fill(), fillDelayMs).unref();
    }
  }

  /** Makes the missing warm pods in the background. */
  fill(): void {
    this.#isWanted = true;
    this.#filling ??= this.#fillAll().finally(() => {
      this.#filling = undefined;
    });
  }

  /**
   * Removes warm pods that are too old or do not run, and pods that a server died while taking.
   * Removes all warm pods when the pool is off.
   */
  async reap(): Promise<void> {
    const { claims, pods } = this.#parts;
    const [kept, running] = await Promise.all([claims.list(labels.warm), pods.list(labels.warm)]);
    const waiting = new Set(kept.map(({ metadata }) => metadata!.name!));
    for (const name of this.#own) if (!waiting.has(name)) this.#own.delete(name);
    const byName = new Map(running.map((pod) => [pod.metadata!.name!, pod]));
    for (const { metadata } of kept) {
      const name = metadata!.name!;
      const age = Date.now() - Number(metadata!.creationTimestamp ?? 0);
      const { phase } = byName.get(name)?.status ?? {};
      if (this.#size === 0 || age > maxAgeMs || (age > maxMakingMs && phase !== "Running"))
        await this.#discard(name);
    }
    // A server has taken the claims of these pods. It is about to change the pods, or it has died,
    // so only pods that the last `reap` found too are removed.
    const taken = [...byName.keys()].filter((name) => !waiting.has(name));
    for (const name of taken) if (this.#taken.has(name)) await pods.sandboxes.remove(name);
    this.#taken = new Set(taken);
    if (this.#shapes.size > 0) this.fill();
  }

  /**
   * Ends the connections, and removes the warm pods that this server has made, because no other
   * server may come. Other servers of the installation make new ones.
   */
  async close(): Promise<void> {
    this.#end.abort();
    clearTimeout(this.#fillTimer);
    await this.#filling;
    for (const { ready } of this.#shapes.values()) for (const { resident } of ready) resident.close();
    this.#shapes.clear();
    const removals = [...this.#own].map((name) => this.#discard(name));
    this.#own.clear();
    await Promise.race([Promise.allSettled(removals), delay(closeTimeoutMs, undefined, { ref: false })]);
  }

  async #fillAll(): Promise<void> {
    while (this.#isWanted && !this.#end.signal.aborted && Date.now() >= this.#retryAt) {
      this.#isWanted = false;
      this.#forgetShapes();
      try {
        for (const [key, shape] of [...this.#shapes]) await this.#fillShape(key, shape);
      } catch {
        // A start without the pool reports the problem.
        this.#retryAt = Date.now() + retryMs;
      }
    }
  }

  #forgetShapes(): void {
    for (const [key, { usedAt, ready }] of [...this.#shapes]) {
      if (this.#shapes.size <= maxShapes && Date.now() - usedAt < shapeLifeMs) continue;
      this.#shapes.delete(key);
      for (const { resident } of ready) resident.close();
    }
  }

  async #fillShape(key: string, shape: Shape): Promise<void> {
    const { claims, pods } = this.#parts;
    const [kept, running] = await Promise.all([claims.list(labels.warm), pods.list(labels.warm)]);
    const names = kept.flatMap(({ metadata }) =>
      metadata!.labels?.[labels.warm] === key ? metadata!.name! : [],
    );
    // Other servers may have taken some of the warm pods.
    for (const warm of shape.ready) if (!names.includes(warm.name)) warm.resident.close();
    shape.ready = shape.ready.filter(({ name, resident }) => names.includes(name) && resident.isOpen);
    for (const pod of running) {
      const name = pod.metadata!.name!;
      const isNew = names.includes(name) && !shape.ready.some((warm) => warm.name === name);
      const isReady = pod.metadata!.labels![labels.unseeded] === undefined;
      const claim = kept.find(({ metadata }) => metadata!.name === name);
      if (isNew && isReady && pod.status?.phase === "Running") await this.#connect(shape, pod, claim);
    }
    for (let count = names.length; count < this.#size && !this.#end.signal.aborted; count++)
      await this.#make(key, shape);
  }

  async #make(key: string, shape: Shape): Promise<void> {
    const { claims, pods, images, connections, defaults } = this.#parts;
    const { spec } = shape;
    const name = `sandpiper-${defaults.installation}-warm-${randomBytes(6).toString("hex")}`;
    const facts = { image: imageOf(spec), folders: chooseFolders(spec) };
    const isSeeded = !(await images.mayHaveFiles(spec));
    const making: Record<string, string> = isSeeded ? {} : { [labels.unseeded]: "yes" };
    try {
      await claims.create({
        name,
        labels: { [labels.warm]: key, ...making },
        facts,
        bytes: spec.limits.diskBytes,
      });
      const own = { [labels.warm]: key, ...making };
      const input = { name, labels: own, hostname, spec, claim: name, folders: facts.folders, isSeeded };
      const created = await pods.sandboxes.make(makeSandboxPod(input, defaults));
      const pod = await pods.waitUntilStarted(created!, this.#end.signal);
      const { resident } = await connections.open(pod);
      if (!isSeeded) {
        await awaitSeeds(
          resident,
          facts.folders.map(({ path }) => path),
        );
        await claims.label(name, { [labels.unseeded]: null });
        await pods.sandboxes.change(name, { labels: { [labels.unseeded]: null } });
      }
      shape.ready.push({ name, resident, claim: await claims.find(name) });
      this.#own.add(name);
    } catch (error) {
      await this.#discard(name).catch(() => {});
      throw error;
    }
  }

  async #connect(shape: Shape, pod: V1Pod, claim: WarmPod["claim"]): Promise<void> {
    const { resident } = await this.#parts.connections.open(pod);
    shape.ready.push({ name: pod.metadata!.name!, resident, claim });
  }

  async #discard(name: string): Promise<void> {
    const { claims, pods } = this.#parts;
    // The exchange fails when a server has just taken the warm pod, and that server keeps it.
    const waits = (own: Record<string, string>) => own[labels.warm] !== undefined;
    if (!(await claims.exchange(name, waits, { [labels.warm]: "discarded" }))) return;
    await claims.remove(name);
    await pods.sandboxes.remove(name);
  }

  /** Returns the digest of a kind of sandbox, which is the value of a label. */
  #keyOf(spec: PreparedSpec): string {
    const folders = chooseFolders(spec);
    const input = { name: "", labels: {}, hostname, claim: "", folders, isSeeded: true };
    // Variables do not belong to the kind, because the driver gives them to each command.
    const pod = makeSandboxPod({ ...input, spec: { ...spec, env: {} } }, this.#parts.defaults);
    const text = JSON.stringify({ pod, bytes: spec.limits.diskBytes });
    return createHash("sha256").update(text).digest("hex").slice(0, 40);
  }
}
