import { randomBytes } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { readdir, readFile, rename, unlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { SingleFlight, type WorkOptions } from "@sandpiper/core/scheduling/single-flight";
import {
  getDigest,
  type ImageReference,
  parseImageReference,
  pinImage,
} from "../../../specs/image-reference.ts";
import { RegistryUnreachable, unusable } from "../../common/images/problems.ts";
import { ImageSource, type Named } from "./source.ts";
import { runTool } from "./tool.ts";
import { unpackImage } from "./unpack.ts";

export interface ImageStoreOptions {
  /** Folder of the images; made when it is missing. */
  dir: string;
  /** Host id of the images' id 0. */
  idBase: number;
  /** Credentials for registries in the format of Docker's config.json; undefined: what skopeo finds itself. */
  authFile?: string | undefined;
  logger?: Logger | undefined;
  /** How long a registry may take for an answer, ms. Default 15 s. */
  answerMs?: number;
}

/** An image that is unpacked here. */
export interface PreparedImage {
  /** The reference with its digest. */
  reference: string;
  env: Record<string, string>;
  /** As the image has it: a name or number, perhaps with a group behind a colon; empty for root. */
  user: string;
}

interface StoredImage extends PreparedImage {
  /** Blobs that it was made from, without which its layers would be fetched again for another image. */
  blobs: string[];
}

const dayMs = 86_400_000;

/**
 * Images on this machine: each is fetched and unpacked once, into a folder that is named after its digest and never changed again.
 * Below `dir`: `roots/<digest>/{rootfs,image.json}`, `blobs/` with what was fetched, `tags.json` with what tags meant last, `tmp/` with
 * half-made things. None of it can be reached by other users of the machine: it holds setuid programs of foreign making.
 */
export class ImageStore {
  readonly #dir: string;
  readonly #idBase: number;
  readonly #logger: Logger | undefined;
  readonly #source: ImageSource;
  readonly #prepares = new SingleFlight<PreparedImage>();
  readonly #unpacks = new SingleFlight<StoredImage>();

  constructor({ dir, idBase, authFile, logger, answerMs = 15_000 }: ImageStoreOptions) {
    this.#dir = dir;
    this.#idBase = idBase;
    this.#logger = logger;
    this.#source = new ImageSource({ authFile, answerMs });
  }

  /** Makes the folders, and removes what an earlier process left half-made. */
  async open(): Promise<void> {
    mkdirSync(this.#dir, { recursive: true });
    chmodSync(this.#dir, 0o700);
    for (const name of ["roots", "blobs", "tmp"]) mkdirSync(join(this.#dir, name), { recursive: true });
    await this.#clear();
  }

  /**
   * Makes an image ready: asks its registry what a tag means now, and fetches and unpacks what is not here. Calls for the same image share
   * the work and its progress. Where the registry does not answer, the tag's last known image serves.
   * Throws SandboxSpecUnusable or StorageFull with one sentence; nothing half-made is left. Rejects with the signal's reason when it is aborted.
   */
  async prepare(reference: string, options: WorkOptions = {}): Promise<PreparedImage> {
    const image = parseImageReference(reference);
    return this.#prepares.run(`${image.name}@${image.digest}`, options, async (report, signal) => {
      const known = image.digest === undefined ? undefined : await this.#stored(image.digest);
      const stored = known ?? (await this.#bring(image, report, signal));
      return { reference: pinImage(image, getDigest(stored.reference)!), env: stored.env, user: stored.user };
    });
  }

  /** The folder with the root filesystem of an image, only to be read. Throws SandboxSpecUnusable when it is not here. */
  layerOf(reference: string): string {
    const digest = getDigest(reference);
    const folder = digest && join(this.#rootOf(digest), "rootfs");
    if (folder && existsSync(folder)) return folder;
    throw unusable(`The image ${reference} is not on this machine any more: make a new sandbox.`);
  }

  /** Removes images that are not among `used` (pinned references) and that nobody asked for during the last days. */
  async prune(used: Iterable<string>, keepMs = 7 * dayMs): Promise<void> {
    const keep = new Set([...used].map(getDigest));
    const removed: string[] = [];
    for (const hex of await readdir(join(this.#dir, "roots"))) {
      if (keep.has(`sha256:${hex}`)) continue;
      const folder = join(this.#dir, "roots", hex);
      // Without a pause between look and move: nobody can come to use it in between.
      const usedAt = statSync(join(folder, "image.json"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
      if (Date.now() - usedAt < keepMs) continue;
      removed.push(this.#temporary());
      renameSync(folder, removed.at(-1)!);
    }
    await this.#pruneBlobs();
    if (removed.length > 0) await remove(...removed);
  }

  /** Ends what is under way; what is half-made is removed. */
  async close(): Promise<void> {
    const reason = new Error("The server is ending.");
    await Promise.all([this.#prepares.end(reason), this.#unpacks.end(reason)]);
  }

  async #bring(
    image: ImageReference,
    report: (text: string) => void,
    signal: AbortSignal,
  ): Promise<StoredImage> {
    report(`asking for ${image.name}`);
    const named = await this.#source.ask(image, signal).catch((error) => this.#lastKnown(image, error));
    if ("blobs" in named) {
      report("the registry does not answer: the image is used as it was fetched before");
      return named;
    }
    const stored =
      (await this.#stored(named.digest)) ??
      (await this.#unpacks.run(named.digest, { onProgress: report, signal }, (line, end) =>
        this.#make(image, named, line, end),
      ));
    if (image.digest === undefined) this.#remember(image.name, named.digest);
    return stored;
  }

  /** The image that a tag meant when its registry still answered. Throws the error where there is none. */
  async #lastKnown(image: ImageReference, error: unknown): Promise<StoredImage> {
    const digest =
      error instanceof RegistryUnreachable && image.digest === undefined
        ? this.#tags()[image.name]
        : undefined;
    const stored = digest === undefined ? undefined : await this.#stored(digest);
    if (!stored) throw error;
    this.#logger?.warn(
      { image: image.name, digest, reason: errorText(error) },
      "an image is used as it was fetched before",
    );
    return stored;
  }

  async #make(
    image: ImageReference,
    named: Named,
    report: (text: string) => void,
    signal: AbortSignal,
  ): Promise<StoredImage> {
    const { digest } = named;
    const described = await this.#source.describe(image, named, signal);
    const { manifest, env, user } = described;
    const draft = this.#temporary();
    mkdirSync(draft);
    const layout = join(draft, "layout");
    const blobs = join(this.#dir, "blobs");
    try {
      await this.#source.fetch(image, described, { folder: layout, blobs }, report, signal);
      report("unpacking");
      const fetched = [
        ...(await blobsOf(layout)),
        digest,
        manifest.config.digest,
        ...manifest.layers.map((layer) => layer.digest),
      ];
      const stored: StoredImage = {
        reference: pinImage(image, digest),
        env,
        user,
        blobs: [...new Set(fetched)],
      };
      await writeFile(join(draft, "image.json"), JSON.stringify(stored));
      await unpackImage(image, { layout, root: join(draft, "rootfs"), idBase: this.#idBase }, signal).catch(
        async (error) => {
          // A damaged blob must not stand in the way of every later try.
          if (!signal.aborted)
            await Promise.allSettled(fetched.map((blob) => unlink(join(blobs, blob.replace(":", "/")))));
          throw error;
        },
      );
      await runTool(["rm", "-rf", "--", layout], { signal });
      // One that is there all the same was damaged, or it would have been used.
      if (existsSync(this.#rootOf(digest))) await rename(this.#rootOf(digest), this.#temporary());
      await rename(draft, this.#rootOf(digest));
      return stored;
    } catch (error) {
      await remove(draft);
      throw error;
    }
  }

  /** The image of a digest if it is unpacked; it then counts as used. */
  async #stored(digest: string): Promise<StoredImage | undefined> {
    const file = join(this.#rootOf(digest), "image.json");
    try {
      const now = new Date();
      await utimes(file, now, now);
      return JSON.parse(await readFile(file, "utf8")) as StoredImage;
    } catch {
      return undefined;
    }
  }

  async #pruneBlobs(): Promise<void> {
    const keep = new Set<string>();
    for (const hex of await readdir(join(this.#dir, "roots"))) {
      const text = await readFile(join(this.#dir, "roots", hex, "image.json"), "utf8");
      for (const blob of (JSON.parse(text) as StoredImage).blobs) keep.add(blob);
    }
    const folder = join(this.#dir, "blobs", "sha256");
    const blobs = await readdir(folder).catch(() => []);
    // Those of an image that is being made are not in use yet.
    if (this.#unpacks.busy) return;
    for (const hex of blobs) if (!keep.has(`sha256:${hex}`)) rmSync(join(folder, hex), { force: true });
    const there = Object.entries(this.#tags()).filter(([, digest]) => existsSync(this.#rootOf(digest)));
    this.#writeTags(Object.fromEntries(there));
  }

  #rootOf(digest: string): string {
    return join(this.#dir, "roots", digest.slice("sha256:".length));
  }

  #temporary(): string {
    return join(this.#dir, "tmp", randomBytes(8).toString("hex"));
  }

  async #clear(): Promise<void> {
    const folder = join(this.#dir, "tmp");
    const names = await readdir(folder);
    if (names.length > 0) await remove(...names.map((name) => join(folder, name)));
  }

  #tags(): Record<string, string> {
    try {
      return JSON.parse(readFileSync(join(this.#dir, "tags.json"), "utf8")) as Record<string, string>;
    } catch {
      return {};
    }
  }

  #remember(name: string, digest: string): void {
    const tags = this.#tags();
    if (tags[name] !== digest) this.#writeTags({ ...tags, [name]: digest });
  }

  #writeTags(tags: Record<string, string>): void {
    const draft = join(this.#dir, "tags.json.new");
    writeFileSync(draft, JSON.stringify(tags));
    renameSync(draft, join(this.#dir, "tags.json"));
  }
}

/** Digests of the manifest, configuration and layers of the one image in an OCI layout; skopeo may have rewritten them. */
async function blobsOf(layout: string): Promise<string[]> {
  const read = async (path: string) => JSON.parse(await readFile(join(layout, path), "utf8"));
  const { digest } = (await read("index.json")).manifests[0] as { digest: string };
  const { config, layers } = (await read(`blobs/${digest.replace(":", "/")}`)) as Record<string, unknown> & {
    config: { digest: string };
    layers: { digest: string }[];
  };
  return [digest, config.digest, ...layers.map((layer) => layer.digest)];
}

/** By a program of its own: names that are not UTF-8 are beyond Node, and 100,000 files would keep it busy. */
async function remove(...paths: string[]): Promise<void> {
  await runTool(["rm", "-rf", "--", ...paths], { signal: new AbortController().signal });
}
