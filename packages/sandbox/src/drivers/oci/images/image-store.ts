import { randomBytes } from "node:crypto";
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from "node:fs";
import { readdir, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { SingleFlight, type WorkOptions } from "@sandpiper/core/scheduling/single-flight";
import {
  getDigest,
  type ImageReference,
  parseImageReference,
  pinImage,
} from "../../../specs/image-reference.ts";
import { Registries } from "../../../specs/registries.ts";
import { FetchTurns } from "../../common/images/fetch-turns.ts";
import { RegistryUnreachable } from "../../common/images/problems.ts";
import { FolderLock } from "../../common/sharing/folder-lock.ts";
import { FolderMembers } from "../../common/sharing/folder-members.ts";
import { BlobsLock } from "./blobs-lock.ts";
import { FetchLocks } from "./fetch-locks.ts";
import { ImageSource, type ManifestBytes } from "./image-source.ts";
import { ImageTags } from "./image-tags.ts";
import { listBlobs } from "./layout-blobs.ts";
import { runTool } from "./run-tool.ts";
import type { ImageLimits } from "./tar-meter.ts";
import { unpackImage } from "./unpack.ts";

export interface ImageStoreOptions {
  /** Folder of the images; created when it is missing. */
  dir: string;
  /** Host id of the images' id 0. */
  idBase: number;
  /** Credentials for registries, as Docker's config.json; undefined: the default of skopeo. */
  authFile?: string | undefined;
  logger?: Logger | undefined;
  /** Timeout for an answer of a registry, ms. Default 15 s. */
  answerTimeoutMs?: number;
  /** Default: public ones only. */
  registries?: Registries | undefined;
  /** What an image may unpack to. */
  limits?: Partial<ImageLimits>;
  /** Images that must stay (pinned references); undefined while they are unknown. */
  used?: () => Iterable<string> | undefined;
  /** Longest pause of a download, ms. Default 60 s. */
  stallTimeoutMs?: number;
  /** Time without progress after which another process that fetches an image stands still, ms. */
  stillMs?: number;
}

/** An image that is unpacked on this machine. */
export interface PreparedImage {
  /** The reference with its digest. */
  reference: string;
  env: Record<string, string>;
  /** From the image: name or uid, optionally `:` and a group; empty for root. */
  user: string;
}

interface StoredImage extends PreparedImage {
  /** Its blobs are kept, so that another image does not fetch its layers again. */
  blobs: string[];
  /** What its layers unpack to; unknown for images of earlier versions. */
  bytes?: number;
}

const dayMs = 86_400_000;
/** Time for which a prepared image stays, because its sandbox may be about to start, ms. */
const freshMs = 600_000;
/** The largest images in use have about 500,000 entries. */
const defaultLimits: ImageLimits = { bytes: 20 * 2 ** 30, files: 2_000_000, depth: 200 };

/**
 * Images on this machine: each is fetched and unpacked once into a folder of its digest, which
 * never changes. Below `dir`: `roots/<digest>/{rootfs,image.json}`, `blobs/` as fetched,
 * `tags.json` with the last digest of each tag, and `tmp/` with incomplete files. Other users of
 * the machine cannot reach any of it, because it holds foreign setuid programs. Several processes
 * may have a folder open: one fetches an image, the others wait for it.
 */
export class ImageStore {
  readonly #dir: string;
  readonly #idBase: number;
  readonly #logger: Logger | undefined;
  readonly #limits: ImageLimits;
  readonly #source: ImageSource;
  readonly #prepares = new SingleFlight<PreparedImage>();
  readonly #unpacks = new SingleFlight<StoredImage>();
  readonly #turns = new FetchTurns();
  readonly #lock: FolderLock;
  readonly #members: FolderMembers;
  readonly #fetches: FetchLocks;
  readonly #blobs: BlobsLock;
  readonly #tags: ImageTags;
  readonly #used: () => Iterable<string> | undefined;

  constructor({ dir, idBase, authFile, logger, ...options }: ImageStoreOptions) {
    const { answerTimeoutMs = 15_000, stallTimeoutMs = 60_000, registries = new Registries() } = options;
    this.#limits = { ...defaultLimits, ...options.limits };
    this.#dir = dir;
    this.#idBase = idBase;
    this.#used = options.used ?? (() => undefined);
    this.#logger = logger;
    this.#lock = new FolderLock(join(dir, "lock"));
    this.#members = new FolderMembers(join(dir, "members"), this.#lock);
    this.#fetches = new FetchLocks(join(dir, "fetches"), options.stillMs);
    this.#blobs = new BlobsLock(join(dir, "blobs.lock"));
    this.#tags = new ImageTags(join(dir, "tags.json"), this.#lock, this.#members);
    this.#source = new ImageSource({
      ...{ authFile, answerTimeoutMs, stallTimeoutMs, registries },
      maxBytes: this.#limits.bytes,
    });
  }

  /** Creates the folders and removes incomplete files of processes that have ended. */
  async open(): Promise<void> {
    mkdirSync(this.#dir, { recursive: true });
    chmodSync(this.#dir, 0o700);
    for (const name of ["roots", "blobs", "tmp"]) mkdirSync(join(this.#dir, name), { recursive: true });
    this.#members.join();
    await this.#clearTemporary();
  }

  /**
   * Prepares an image: resolves its tag at the registry (or to the last known image when the
   * registry does not answer), and fetches and unpacks it if needed. Concurrent calls for an image
   * share the work and its progress. Throws SandboxSpecUnusable, StorageFull, or the signal's
   * reason.
   */
  async prepare(
    reference: string,
    { owner = "", ...options }: WorkOptions & { owner?: string | undefined } = {},
  ): Promise<PreparedImage> {
    const image = parseImageReference(reference);
    return this.#prepares.run(`${image.name}@${image.digest}`, options, async (report, signal) => {
      const known = image.digest === undefined ? undefined : this.#stored(image.digest);
      const stored = known ?? (await this.#obtain(image, owner, report, signal));
      return { reference: pinImage(image, getDigest(stored.reference)!), env: stored.env, user: stored.user };
    });
  }

  /** The read-only root filesystem of an image. Throws SandboxSpecUnusable when it is missing. */
  layerPath(reference: string): string {
    const digest = getDigest(reference);
    const folder = digest && join(this.#rootFolder(digest), "rootfs");
    if (folder && existsSync(folder)) return folder;
    throw new PlatformError("ImageRemoved", { image: reference });
  }

  /**
   * Removes images that are not in `used` (pinned references): those that were not prepared for
   * `keepMs`, and the oldest while they take more than one image may.
   */
  async prune(used: Iterable<string>, keepMs = 7 * dayMs): Promise<void> {
    const keep = new Set([...used].map(getDigest));
    const removed: string[] = [];
    const unused = await this.#list((hex) => !keep.has(`sha256:${hex}`));
    let total = unused.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { hex, bytes } of unused) {
      const isExcess = this.#limits.bytes > 0 && total > this.#limits.bytes;
      const path = this.#discard(hex, isExcess ? Math.min(freshMs, keepMs) : keepMs);
      if (path === undefined) continue;
      total -= bytes;
      removed.push(path);
    }
    const lock = this.#blobs.tryExclude();
    // No description has the blobs of an image that is being unpacked, so a fetch stops the
    // removal.
    if (lock !== undefined) await this.#pruneBlobs().finally(() => closeSync(lock));
    if (removed.length > 0) await remove(...removed);
  }

  /**
   * Moves an image that was not prepared for `keepMs` to a temporary path, so that no process can
   * begin to use it. Returns that path, or undefined for an image that stays.
   */
  #discard(hex: string, keepMs: number): string | undefined {
    return this.#lock.run(() => {
      const folder = join(this.#dir, "roots", hex);
      if (!existsSync(folder)) return undefined;
      const usedAt = statSync(join(folder, "image.json"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
      if (Date.now() - usedAt < keepMs) return undefined;
      const path = this.#temporaryPath();
      renameSync(folder, path);
      return path;
    });
  }

  /** Unpacked images, the one that was prepared longest ago first. */
  async #list(includes: (hex: string) => boolean): Promise<{ hex: string; bytes: number }[]> {
    const names = (await readdir(join(this.#dir, "roots"))).filter(includes);
    const found = names.map((hex) => {
      const file = join(this.#dir, "roots", hex, "image.json");
      const usedAt = statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
      const { bytes = 0 } = readImage(file) ?? {};
      return { hex, bytes, usedAt };
    });
    return found.sort((a, b) => a.usedAt - b.usedAt);
  }

  /** Cancels all work and removes its incomplete files. */
  async close(): Promise<void> {
    const reason = new Error("The server is ending.");
    await Promise.all([this.#prepares.end(reason), this.#unpacks.end(reason)]);
    this.#members.leave();
  }

  async #obtain(
    image: ImageReference,
    owner: string,
    report: (text: string) => void,
    signal: AbortSignal,
  ): Promise<StoredImage> {
    report(`asking for ${image.name}`);
    const resolved = await this.#source
      .resolve(image, signal)
      .catch((error) => this.#lastKnown(image, error));
    if ("blobs" in resolved) {
      report("the registry does not answer: the image is used as it was fetched before");
      return resolved;
    }
    let stored = this.#stored(resolved.digest);
    if (!stored) {
      const options = { onProgress: report, signal };
      stored = await this.#unpacks.run(resolved.digest, options, (line, end) =>
        this.#turns.run(owner, { report: line, signal: end }, () =>
          this.#makeOnce(image, resolved, line, end),
        ),
      );
      const used = this.#used();
      if (used) await this.prune(used).catch(() => {});
    }
    if (image.digest === undefined) this.#tags.set(image.name, resolved.digest);
    return stored;
  }

  /** The image of a tag when its registry last answered. Throws `error` without one. */
  async #lastKnown(image: ImageReference, error: unknown): Promise<StoredImage> {
    const digest =
      error instanceof RegistryUnreachable && image.digest === undefined
        ? this.#tags.get(image.name)
        : undefined;
    const stored = digest === undefined ? undefined : this.#stored(digest);
    if (!stored) throw error;
    this.#logger?.warn(
      { image: image.name, digest, reason: errorText(error) },
      "an image is used as it was fetched before",
    );
    return stored;
  }

  /** Makes an image, or waits until another process has made it. */
  async #makeOnce(
    image: ImageReference,
    resolved: ManifestBytes,
    report: (text: string) => void,
    signal: AbortSignal,
  ): Promise<StoredImage> {
    const lock = await this.#fetches.acquire(resolved.digest, report, signal);
    try {
      const made = this.#stored(resolved.digest);
      if (made) return made;
      const tell = (text: string) => {
        lock?.report(text);
        report(text);
      };
      return await this.#make(image, resolved, tell, signal);
    } finally {
      lock?.release();
    }
  }

  async #make(
    image: ImageReference,
    resolved: ManifestBytes,
    report: (text: string) => void,
    signal: AbortSignal,
  ): Promise<StoredImage> {
    const { digest } = resolved;
    const described = await this.#source.describe(image, resolved, signal);
    const { manifest, env, user } = described;
    const draft = this.#temporaryPath();
    mkdirSync(draft);
    const layout = join(draft, "layout");
    const share = await this.#blobs.share(signal);
    // Without the lock, another process may be removing blobs, so the image gets a folder for
    // blobs.
    const blobs = share === undefined ? join(draft, "blobs") : join(this.#dir, "blobs");
    try {
      mkdirSync(blobs, { recursive: true });
      await this.#source.fetch(image, described, { folder: layout, blobs }, report, signal);
      report("unpacking");
      const fetched = [
        ...(await listBlobs(layout)),
        digest,
        manifest.config.digest,
        ...manifest.layers.map((layer) => layer.digest),
      ];
      const to = { layout, root: join(draft, "rootfs"), idBase: this.#idBase, limits: this.#limits };
      const bytes = await unpackImage(image, to, signal).catch(async (error) => {
        // A damaged blob must not make every later attempt fail.
        if (!signal.aborted)
          await Promise.allSettled(fetched.map((blob) => unlink(join(blobs, blob.replace(":", "/")))));
        throw error;
      });
      const blobsOf = [...new Set(fetched)];
      const stored: StoredImage = { reference: pinImage(image, digest), env, user, blobs: blobsOf, bytes };
      await writeFile(join(draft, "image.json"), JSON.stringify(stored));
      const leftovers = share === undefined ? [layout, blobs] : [layout];
      await runTool(["rm", "-rf", "--", ...leftovers], { signal });
      return this.#publish(digest, draft) ?? stored;
    } finally {
      if (share !== undefined) closeSync(share);
      await remove(draft);
    }
  }

  /** Puts an image in its place, or returns the one that another process has put there. */
  #publish(digest: string, draft: string): StoredImage | undefined {
    return this.#lock.run(() => {
      const found = this.#stored(digest);
      if (found) return found;
      const folder = this.#rootFolder(digest);
      // A folder without its description is damaged.
      if (existsSync(folder)) renameSync(folder, this.#temporaryPath());
      renameSync(draft, folder);
      return undefined;
    });
  }

  /** The unpacked image of a digest, which then counts as used. */
  #stored(digest: string): StoredImage | undefined {
    const file = join(this.#rootFolder(digest), "image.json");
    return this.#lock.run(() => {
      const image = readImage(file);
      const now = new Date();
      if (image) utimesSync(file, now, now);
      return image;
    });
  }

  async #pruneBlobs(): Promise<void> {
    const keep = new Set<string>();
    for (const hex of await readdir(join(this.#dir, "roots")))
      for (const blob of readImage(join(this.#dir, "roots", hex, "image.json"))?.blobs ?? []) keep.add(blob);
    const folder = join(this.#dir, "blobs", "sha256");
    const blobs = await readdir(folder).catch(() => []);
    for (const hex of blobs) if (!keep.has(`sha256:${hex}`)) rmSync(join(folder, hex), { force: true });
    this.#tags.keep((digest) => existsSync(this.#rootFolder(digest)));
  }

  #rootFolder(digest: string): string {
    return join(this.#dir, "roots", digest.slice("sha256:".length));
  }

  #temporaryPath(): string {
    return join(this.#dir, "tmp", `${this.#members.name}.${randomBytes(8).toString("hex")}`);
  }

  async #clearTemporary(): Promise<void> {
    const folder = join(this.#dir, "tmp");
    // The rename makes sure that only one process removes each folder.
    const own = this.#lock.run(() =>
      readdirSync(folder)
        .filter((name) => !this.#members.isLiving(name.split(".")[0]!))
        .map((name) => {
          const path = this.#temporaryPath();
          renameSync(join(folder, name), path);
          return path;
        }),
    );
    if (own.length > 0) await remove(...own);
  }
}

/** Reads the description of an image; undefined when the file is missing or damaged. */
function readImage(file: string): StoredImage | undefined {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as StoredImage;
  } catch {
    return undefined;
  }
}

/** By `rm`, because Node cannot handle names that are not UTF-8 and would block on many files. */
async function remove(...paths: string[]): Promise<void> {
  await runTool(["rm", "-rf", "--", ...paths], { signal: new AbortController().signal });
}
