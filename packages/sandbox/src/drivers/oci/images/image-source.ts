import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, stat, symlink } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { formatSize } from "../../../service/disk-space.ts";
import type { ImageReference } from "../../../specs/image-reference.ts";
import { isLoopback, type Registries } from "../../../specs/registries.ts";
import { getUsableSpace, guardDisk } from "./disk-guard.ts";
import { type Manifest, parseImageConfig, parseManifest } from "./image-config.ts";
import { runSkopeo } from "./run-skopeo.ts";

/** A manifest, or an index of several manifests. */
export interface ManifestBytes {
  digest: string;
  bytes: Buffer;
}

/** An image as its registry describes it. */
export interface ImageDescription {
  /** The source for skopeo. */
  source: string;
  manifest: Manifest;
  env: Record<string, string>;
  user: string;
}

export interface ImageSourceOptions {
  /** File with credentials for registries; undefined: the default of skopeo. */
  authFile: string | undefined;
  /** Timeout for an answer of a registry, ms. */
  answerTimeoutMs: number;
  /** Longest time in which a download makes too little progress, ms. */
  stallTimeoutMs: number;
  /** Bytes of an image; 0: no limit. */
  maxBytes: number;
  registries: Registries;
}

/** Bytes that a download must make in the longest pause. */
const minProgressBytes = 64 * 1024;
/** What a download may take beyond the layers that the manifest declares, bytes. */
const slackBytes = 16 * 2 ** 20;
const progressIntervalMs = 250;

/** Fetches images by skopeo. Every method throws SandboxSpecUnusable or StorageFull. */
export class ImageSource {
  readonly #options: ImageSourceOptions;

  constructor(options: ImageSourceOptions) {
    this.#options = options;
  }

  /** Resolves a reference to its current manifest or index. */
  async resolve(image: ImageReference, signal: AbortSignal): Promise<ManifestBytes> {
    const bytes = await this.#manifest(image, toSource(image, image.digest), signal);
    const digest = computeDigest(bytes);
    if (image.digest !== undefined && image.digest !== digest)
      throw new PlatformError("ImageDigestWrong", { name: image.name, digest: image.digest });
    return { digest, bytes };
  }

  /** Finds the image for this machine in a manifest or index. */
  async describe(
    image: ImageReference,
    { digest, bytes: top }: ManifestBytes,
    signal: AbortSignal,
  ): Promise<ImageDescription> {
    const read = parseManifest(image.name, top);
    const instance = "instance" in read ? read.instance : digest;
    const source = toSource(image, instance);
    const bytes = instance === digest ? top : await this.#manifest(image, source, signal);
    // For files skopeo itself chooses the image of this machine, which may not be that of the
    // index.
    if (image.source === "registry" && computeDigest(bytes) !== instance)
      throw new PlatformError("ImageDigestWrong", { ...image, digest: instance });
    const inner = parseManifest(image.name, bytes);
    if (!("manifest" in inner))
      throw new PlatformError("ImageInvalid", {
        name: image.name,
        reason: "it is an index within an index",
      });
    const config = await this.#inspect(image, ["--config", "--raw", source], signal);
    return { source, manifest: inner.manifest, ...parseImageConfig(image.name, config) };
  }

  /**
   * Fetches into the new OCI layout `folder` under the name `image`; blobs in `blobs` are not
   * fetched again, and incomplete ones stay in `folder`.
   */
  async fetch(
    image: ImageReference,
    { source, manifest }: ImageDescription,
    to: { folder: string; blobs: string },
    report: (text: string) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { stallTimeoutMs, maxBytes } = this.#options;
    const progress = new DownloadProgress(manifest, to, stallTimeoutMs);
    const missing = await progress.missingBytes();
    if (maxBytes > 0 && missing > maxBytes)
      throw new PlatformError("ImageTooLarge", { name: image.name, max: formatSize(maxBytes) });
    if (missing > (await getUsableSpace(to.blobs))) throw new PlatformError("ImageDiskFull", image);
    await mkdir(to.folder, { recursive: true, mode: 0o700 });
    await symlink(to.blobs, join(to.folder, "blobs"));

    const abort = new AbortController();
    const guard = guardDisk(to.blobs, () => abort.abort(new PlatformError("ImageDiskFull", image)));
    const { name } = image;
    const seconds = stallTimeoutMs / 1000;
    const problems = {
      stalled: () => abort.abort(new PlatformError("ImageDownloadStalled", { name, seconds })),
      flooded: () =>
        abort.abort(
          new PlatformError("ImageInvalid", { name, reason: "its registry sends more than it announced" }),
        ),
    };
    const timer = setInterval(() => void progress.update(report, problems), progressIntervalMs);
    try {
      const auth = this.#options.authFile ? ["--src-authfile", this.#options.authFile] : [];
      // umoci reads only gzip. skopeo runs in the folder, because it ends a path at a colon.
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
      const either = AbortSignal.any([signal, abort.signal]);
      await runSkopeo(argv, image, this.#options.registries, { cwd: to.folder, signal: either });
    } finally {
      clearInterval(timer);
      progress.stop();
      guard.end();
    }
  }

  #manifest(image: ImageReference, source: string, signal: AbortSignal): Promise<Buffer> {
    return this.#inspect(image, ["--raw", source], signal);
  }

  async #inspect(image: ImageReference, args: string[], signal: AbortSignal): Promise<Buffer> {
    const auth = this.#options.authFile ? ["--authfile", this.#options.authFile] : [];
    const argv = [...this.#skopeo("inspect", image, "--tls-verify"), ...auth, ...args];
    const { registries, answerTimeoutMs: timeoutMs } = this.#options;
    return runSkopeo(argv, image, registries, { timeoutMs, signal });
  }

  #skopeo(command: string, image: ImageReference, verifyOption: string): string[] {
    const plain = image.source === "registry" && isLoopback(image.registry);
    return ["skopeo", ...(hasPolicy() ? [] : ["--insecure-policy"]), command, `${verifyOption}=${!plain}`];
  }
}

/** Progress of a download, from the files that it writes. */
class DownloadProgress {
  readonly #layers: Manifest["layers"];
  readonly #to: { folder: string; blobs: string };
  readonly #stallTimeoutMs: number;
  #bytes = Number.NEGATIVE_INFINITY;
  #reportedBytes = 0;
  #changedAt = Date.now();
  #present = new Set<string>();
  #stopped = false;

  constructor(manifest: Manifest, to: { folder: string; blobs: string }, stallTimeoutMs: number) {
    this.#stallTimeoutMs = stallTimeoutMs;
    this.#layers = manifest.layers;
    this.#to = to;
  }

  /** Bytes of the missing layers. */
  async missingBytes(): Promise<number> {
    await this.#findPresent();
    return this.#sum((digest) => !this.#present.has(digest));
  }

  async update(
    report: (text: string) => void,
    { stalled, flooded }: { stalled: () => void; flooded: () => void },
  ): Promise<void> {
    await this.#findPresent();
    const bytes = this.#sum((digest) => this.#present.has(digest)) + (await measureFiles(this.#to.folder));
    if (this.#stopped) return;
    const total = this.#sum(() => true);
    if (bytes > total + slackBytes) flooded();
    // A registry that sends a few bytes a minute would hold a place and a connection.
    if (Math.abs(bytes - this.#bytes) >= Math.min(minProgressBytes, total)) {
      this.#changedAt = Date.now();
      this.#bytes = bytes;
    } else if (Date.now() - this.#changedAt > this.#stallTimeoutMs) stalled();
    // A layer that moves to the blobs during a measurement is missing from it; updates overlap.
    this.#reportedBytes = Math.max(this.#reportedBytes, bytes);
    const layer = Math.min(this.#present.size + 1, this.#layers.length);
    report(
      `fetching layer ${layer} of ${this.#layers.length}, ${megabytes(Math.min(this.#reportedBytes, total))} of ${megabytes(total)} MB`,
    );
  }

  /** A running update reports nothing any more. */
  stop(): void {
    this.#stopped = true;
  }

  #sum(counts: (digest: string) => boolean): number {
    return this.#layers.reduce((sum, { digest, size }) => sum + (counts(digest) ? size : 0), 0);
  }

  async #findPresent(): Promise<void> {
    for (const { digest } of this.#layers) {
      const found = await stat(join(this.#to.blobs, digest.replace(":", "/"))).catch(() => undefined);
      if (found) this.#present.add(digest);
    }
  }
}

async function measureFiles(folder: string): Promise<number> {
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

/** skopeo accepts a tag or a digest, not both. */
function toSource(image: ImageReference, digest: string | undefined): string {
  if (image.source !== "registry")
    return `${image.source}:${image.path}${image.tag === undefined ? "" : `:${image.tag}`}`;
  const name = `docker://${image.registry}/${image.repository}`;
  return digest === undefined ? `${name}:${image.tag}` : `${name}@${digest}`;
}

function computeDigest(bytes: Buffer): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** True with an administrator's policy on image signatures; skopeo refuses to work without one. */
function hasPolicy(): boolean {
  return (
    existsSync("/etc/containers/policy.json") || existsSync(join(homedir(), ".config/containers/policy.json"))
  );
}
