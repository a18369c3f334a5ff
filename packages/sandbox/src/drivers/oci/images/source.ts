import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, stat, symlink } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import type { ImageReference } from "../../../specs/image-reference.ts";
import { diskFull, fetchProblem, unusable, wrongDigest } from "../../common/images/problems.ts";
import { guardDisk, usableSpace } from "./disk-guard.ts";
import { type Manifest, readImageConfig, readManifest } from "./image-config.ts";
import { runTool } from "./tool.ts";

/** What a reference names: a manifest, or an index of several. */
export interface Named {
  digest: string;
  bytes: Buffer;
}

/** An image as its registry describes it. */
export interface Described {
  /** What skopeo is to fetch. */
  source: string;
  manifest: Manifest;
  env: Record<string, string>;
  user: string;
}

export interface SourceOptions {
  /** Credentials for registries; undefined: what skopeo finds itself. */
  authFile: string | undefined;
  /** How long a registry may take for an answer, ms. */
  answerMs: number;
}

/** How long a download may stand still, ms. */
const stallMs = 60_000;
const progressMs = 250;

/** Asks for images and fetches them, by skopeo. Every method throws SandboxSpecUnusable (or StorageFull) with one sentence. */
export class ImageSource {
  readonly #options: SourceOptions;

  constructor(options: SourceOptions) {
    this.#options = options;
  }

  /** What the reference names now: a manifest or an index, and its digest. */
  async ask(image: ImageReference, signal: AbortSignal): Promise<Named> {
    const bytes = await this.#manifest(image, sourceOf(image, image.digest), signal);
    const digest = digestOf(bytes);
    if (image.digest !== undefined && image.digest !== digest) throw wrongDigest(image);
    return { digest, bytes };
  }

  /** The image that `named` means for this machine. */
  async describe(
    image: ImageReference,
    { digest, bytes: top }: Named,
    signal: AbortSignal,
  ): Promise<Described> {
    const read = readManifest(image.name, top);
    const instance = "instance" in read ? read.instance : digest;
    const source = sourceOf(image, instance);
    const bytes = instance === digest ? top : await this.#manifest(image, source, signal);
    // Files of this machine name the image for it by themselves; of a registry the bytes must be the ones that the index names.
    if (image.source === "registry" && digestOf(bytes) !== instance)
      throw wrongDigest({ ...image, digest: instance });
    const inner = readManifest(image.name, bytes);
    if (!("manifest" in inner))
      throw unusable(`${image.name} is not an image that can be used here: an index within an index.`);
    const config = await this.#inspect(image, ["--config", "--raw", source], signal);
    return { source, manifest: inner.manifest, ...readImageConfig(image.name, config) };
  }

  /**
   * Fetches into the OCI layout `folder`, which is made, under the name `image`; blobs that lie in `blobs` are not fetched again.
   * What is half fetched lies in `folder`.
   */
  async fetch(
    image: ImageReference,
    { source, manifest }: Described,
    to: { folder: string; blobs: string },
    report: (text: string) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const progress = new Progress(manifest, to);
    const missing = await progress.missingBytes();
    if (missing > (await usableSpace(to.blobs))) throw diskFull(image);
    await mkdir(to.folder, { recursive: true, mode: 0o700 });
    await symlink(to.blobs, join(to.folder, "blobs"));

    const abort = new AbortController();
    const guard = guardDisk(to.blobs, () => abort.abort(diskFull(image)));
    const stalled = () =>
      abort.abort(unusable(`The download of ${image.name} stood still for ${stallMs / 1000} s: try again.`));
    const timer = setInterval(() => void progress.look(report, stalled), progressMs);
    try {
      const auth = this.#options.authFile ? ["--src-authfile", this.#options.authFile] : [];
      // umoci reads no compression but gzip. A colon in a path would end it for skopeo, so it works from within the folder.
      const options = [
        "--dest-compress-format",
        "gzip",
        "--retry-times",
        "2",
        "--tmpdir",
        ".",
        "--dest-shared-blob-dir",
        to.blobs,
      ];
      const argv = [
        ...this.#skopeo("copy", image, "--src-tls-verify"),
        ...auth,
        ...options,
        source,
        "oci:.:image",
      ];
      const result = await runTool(argv, { cwd: to.folder, signal: AbortSignal.any([signal, abort.signal]) });
      if (!result.ok) throw fetchProblem(image, result);
    } finally {
      clearInterval(timer);
      progress.end();
      guard.end();
    }
  }

  #manifest(image: ImageReference, source: string, signal: AbortSignal): Promise<Buffer> {
    return this.#inspect(image, ["--raw", source], signal);
  }

  async #inspect(image: ImageReference, args: string[], signal: AbortSignal): Promise<Buffer> {
    const auth = this.#options.authFile ? ["--authfile", this.#options.authFile] : [];
    const argv = [...this.#skopeo("inspect", image, "--tls-verify"), ...auth, ...args];
    const result = await runTool(argv, { timeoutMs: this.#options.answerMs, signal });
    if (!result.ok) throw fetchProblem(image, result);
    return result.stdout;
  }

  #skopeo(command: string, image: ImageReference, verifyOption: string): string[] {
    const plain = image.source === "registry" && isLoopback(image.registry);
    return ["skopeo", ...(hasPolicy() ? [] : ["--insecure-policy"]), command, `${verifyOption}=${!plain}`];
  }
}

/** How far a download is, seen from the files that it makes. */
class Progress {
  readonly #layers: Manifest["layers"];
  readonly #to: { folder: string; blobs: string };
  #bytes = -1;
  #movedAt = Date.now();
  #there = new Set<string>();
  #ended = false;

  constructor(manifest: Manifest, to: { folder: string; blobs: string }) {
    this.#layers = manifest.layers;
    this.#to = to;
  }

  /** Bytes of the layers that are not here yet. */
  async missingBytes(): Promise<number> {
    await this.#find();
    return this.#sum((digest) => !this.#there.has(digest));
  }

  async look(report: (text: string) => void, stalled: () => void): Promise<void> {
    await this.#find();
    const bytes = this.#sum((digest) => this.#there.has(digest)) + (await sizeOfFiles(this.#to.folder));
    if (this.#ended) return;
    if (bytes !== this.#bytes) this.#movedAt = Date.now();
    else if (Date.now() - this.#movedAt > stallMs) stalled();
    this.#bytes = bytes;
    const total = this.#sum(() => true);
    const layer = Math.min(this.#there.size + 1, this.#layers.length);
    report(
      `fetching layer ${layer} of ${this.#layers.length}, ${megabytes(Math.min(bytes, total))} of ${megabytes(total)} MB`,
    );
  }

  /** A look that is under way says nothing any more. */
  end(): void {
    this.#ended = true;
  }

  #sum(counts: (digest: string) => boolean): number {
    return this.#layers.reduce((sum, { digest, size }) => sum + (counts(digest) ? size : 0), 0);
  }

  async #find(): Promise<void> {
    for (const { digest } of this.#layers) {
      const found = await stat(join(this.#to.blobs, digest.replace(":", "/"))).catch(() => undefined);
      if (found) this.#there.add(digest);
    }
  }
}

async function sizeOfFiles(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(folder, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

function megabytes(bytes: number): number {
  return Math.ceil(bytes / 1_000_000);
}

/** skopeo takes a tag or a digest, not both. */
function sourceOf(image: ImageReference, digest: string | undefined): string {
  if (image.source !== "registry")
    return `${image.source}:${image.path}${image.tag === undefined ? "" : `:${image.tag}`}`;
  const name = `docker://${image.registry}/${image.repository}`;
  return digest === undefined ? `${name}:${image.tag}` : `${name}@${digest}`;
}

function digestOf(bytes: Buffer): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

function isLoopback(registry: string): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/.test(registry);
}

/** The administrator's rules on whose signatures images must have. skopeo refuses to work without any. */
function hasPolicy(): boolean {
  return (
    existsSync("/etc/containers/policy.json") || existsSync(join(homedir(), ".config/containers/policy.json"))
  );
}
