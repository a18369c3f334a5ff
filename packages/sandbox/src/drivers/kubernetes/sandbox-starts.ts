import type { V1PersistentVolumeClaim, V1Pod } from "@kubernetes/client-node";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { PreparedSpec, SandboxFile, SandboxUser, StartRequest } from "../../driver.ts";
import { placeFile } from "../common/place-file.ts";
import type { ClaimFacts, Claims } from "./claims.ts";
import type { Connections } from "./connections.ts";
import type { Images } from "./images.ts";
import { annotations, labels, readFacts, toSandboxName } from "./labels.ts";
import { imageOf, makeSandboxPod, type PodDefaults, sandboxStatus, toPodFacts } from "./pod-options.ts";
import { endReason } from "./pod-problems.ts";
import type { Pods } from "./pods.ts";
import type { Resident } from "./resident.ts";
import { awaitSeeds } from "./seeds.ts";
import type { VolumeCopies } from "./volume-copies.ts";
import { chooseFolders } from "./volume-folders.ts";
import type { WarmPod, WarmPool } from "./warm-pool.ts";

interface Parts {
  pods: Pods;
  claims: Claims;
  images: Images;
  copies: VolumeCopies;
  connections: Connections;
  warmPool: WarmPool;
  defaults: PodDefaults;
}

/** Starts sandboxes. Each has a claim for the files that stay, and a pod that runs. */
export class SandboxStarts {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async start(request: StartRequest): Promise<void> {
    const { claims, defaults, warmPool } = this.#parts;
    const { id, spec, snapshot } = request;
    const claim = await claims.findSandbox(id);
    if (!claim && snapshot === undefined) {
      const warm = await warmPool.take(id, spec);
      if (warm && (await this.#useWarm(warm, request))) return;
    }
    const name = claim?.metadata?.name ?? toSandboxName(defaults.installation, id);
    await this.#clearPod(id, name, claim !== undefined);
    const { folders, isSeeded } = claim ? readClaim(claim) : await this.#makeClaim(name, request);
    try {
      await this.#startPod(name, request, { folders, isSeeded });
    } catch (error) {
      if (!claim) await claims.remove(name).catch(() => {});
      throw error;
    }
  }

  async #startPod(
    name: string,
    request: StartRequest,
    { folders, isSeeded }: Pick<ClaimFacts, "folders"> & { isSeeded: boolean },
  ): Promise<void> {
    const { pods, claims, connections, defaults } = this.#parts;
    const { id, spec } = request;
    const own = { [labels.sandbox]: id };
    const input = { name, labels: own, hostname: id, spec, claim: name, folders, isSeeded };
    const pod = await pods.sandboxes.make(makeSandboxPod(input, defaults));
    if (!pod) throw new PlatformError("SandboxAlreadyRunning", { id });
    try {
      const seeds = isSeeded ? [] : folders.map(({ path }) => path);
      await this.#bringUp(await pods.waitUntilStarted(pod), request, seeds);
      if (!isSeeded) await claims.label(name, { [labels.unseeded]: null });
    } catch (error) {
      connections.close(id);
      await pods.sandboxes.remove(name).catch(() => {});
      throw error;
    }
  }

  /** Removes a pod that has ended, and a warm pod whose server died while it took the pod. */
  async #clearPod(id: string, name: string, isKnown: boolean): Promise<void> {
    const { pods } = this.#parts;
    const old = await pods.find(name);
    const isOwn = old?.metadata?.labels?.[labels.sandbox] !== undefined;
    if (old && isKnown && isOwn && !hasEnded(old)) throw new PlatformError("SandboxAlreadyRunning", { id });
    if (old) await pods.sandboxes.stop(name);
  }

  /** Takes a warm pod. Returns false after it has removed a warm pod that cannot be used. */
  async #useWarm({ name, resident }: WarmPod, { id, spec, files = [] }: StartRequest): Promise<boolean> {
    const { pods, claims, connections, defaults } = this.#parts;
    const facts = toPodFacts(spec, defaults);
    const isNeeded = this.#checkAlone(id, name);
    try {
      await Promise.all([
        isNeeded,
        pods.sandboxes.change(name, {
          labels: { [labels.warm]: null, [labels.sandbox]: id },
          annotations: { [annotations.facts]: JSON.stringify(facts) },
        }),
        putFiles(resident, files, spec.user),
      ]);
      if (!resident.isOpen) throw new PlatformError("SandboxProcessesEnded", { id });
      connections.adopt(id, { name, resident, facts, isPaused: false });
      return true;
    } catch {
      resident.close();
      await claims.remove(name);
      await pods.sandboxes.remove(name);
      await isNeeded;
      return false;
    }
  }

  /**
   * Throws SandboxFailed when another server has begun to start the sandbox with another claim.
   * When both servers see each other, neither starts the sandbox.
   */
  async #checkAlone(id: string, name: string): Promise<void> {
    const all = await this.#parts.claims.list(labels.sandbox, id);
    if (all.some(({ metadata }) => metadata!.name !== name))
      throw new PlatformError("SandboxAlreadyRunning", { id });
  }

  /**
   * Copies the files of a sandbox into a snapshot. The processes of the sandbox stop until then.
   */
  async save(id: string, snapshotId: string): Promise<void> {
    const { pods, claims, copies, connections } = this.#parts;
    const claim = await claims.findSandbox(id);
    const facts = readFacts<ClaimFacts>(claim?.metadata);
    if (!claim || !facts) throw new PlatformError("UnknownSandbox", { id });
    const name = claim.metadata!.name!;
    const pod = await pods.find(name);
    const bytes = Number(claim.spec?.resources?.requests?.storage ?? 0);
    const connection = pod && !hasEnded(pod) ? await connections.get(id) : undefined;
    const stops = connection !== undefined && !connection.isPaused;
    try {
      if (stops) await connection.resident.freeze();
      await copies.save(name, snapshotId, facts, bytes);
    } finally {
      if (stops) await connection.resident.thaw().catch(() => {});
    }
  }

  async #makeClaim(
    name: string,
    { id, spec, snapshot }: StartRequest,
  ): Promise<Pick<ClaimFacts, "folders"> & { isSeeded: boolean }> {
    const { claims, copies, images } = this.#parts;
    const source = snapshot === undefined ? undefined : await copies.find(snapshot);
    const facts = source?.facts ?? {
      image: imageOf(spec),
      folders: chooseFolders(spec),
    };
    const isSeeded = source !== undefined || !(await images.mayHaveFiles(spec));
    await claims.create({
      name,
      labels: { [labels.sandbox]: id, ...(isSeeded ? {} : { [labels.unseeded]: "yes" }) },
      facts,
      bytes: spec.limits.diskBytes,
    });
    try {
      await this.#checkAlone(id, name);
      if (source) await copies.copy(source.name, name, facts);
    } catch (error) {
      await claims.remove(name).catch(() => {});
      throw error;
    }
    return { folders: facts.folders, isSeeded };
  }

  /** `seeds`: folders that get the image's files. */
  async #bringUp(pod: V1Pod, { id, spec, files = [] }: StartRequest, seeds: string[]): Promise<void> {
    if (hasEnded(pod)) return checkEnded(pod, spec);
    try {
      const { resident } = await this.#parts.connections.connect(id, pod);
      if (seeds.length > 0) await awaitSeeds(resident, seeds);
      await putFiles(resident, files, spec.user);
    } catch (error) {
      // The connection fails too when a short command has ended already.
      const ended = spec.command === null ? undefined : await this.#parts.pods.findEnded(pod);
      if (!ended) throw error;
      checkEnded(ended, spec);
    }
  }
}

function hasEnded({ status }: V1Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/** Throws SandboxFailed unless the command of an ended pod has run. */
function checkEnded(pod: V1Pod, { command }: PreparedSpec): void {
  const { terminated } = sandboxStatus(pod)?.state ?? {};
  const ran = command !== null && terminated !== undefined && !terminated.message;
  if (!ran) throw new PlatformError("PodNotStarted", { reason: endReason(pod) });
}

function readClaim(claim: V1PersistentVolumeClaim): Pick<ClaimFacts, "folders"> & { isSeeded: boolean } {
  const { folders = [] } = readFacts<ClaimFacts>(claim.metadata) ?? {};
  return { folders, isSeeded: claim.metadata?.labels?.[labels.unseeded] === undefined };
}

async function putFiles(resident: Resident, files: SandboxFile[], user: SandboxUser): Promise<void> {
  const { uid, gid } = user;
  try {
    await Promise.all(
      files.map(async (file) => {
        const { path, folders } = placeFile(file, user);
        for (const folder of folders) await resident.makeFolder({ path: folder, uid, gid });
        await resident.put({ path, mode: 0o644, uid: 0, gid: 0, content: Buffer.from(file.content) });
      }),
    );
  } catch (cause) {
    throw new PlatformError("PodFilesFailed", { reason: errorText(cause) }, { cause });
  }
}
