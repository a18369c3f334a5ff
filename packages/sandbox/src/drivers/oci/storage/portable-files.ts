import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { FilesOf, PortableFiles, PreparedSpec } from "../../../driver.ts";
import { runProgram } from "../../common/run-program.ts";
import { isRootless } from "../../common/uid-range.ts";
import { packLayers, unpackLayers } from "./layer-archive.ts";
import { removeTrees } from "./remove-tree.ts";
import type { SandboxFiles } from "./sandbox-files.ts";

/** The first line of exported files; the archive of the layers follows. */
interface Manifest {
  format: "sandpiper-layers-1";
  /** True: the layers have ids and attributes of a user's namespace. False: those of root. */
  rootless: boolean;
  /** Names of the folders in the archive, uppermost first. */
  layers: string[];
}

const format = "sandpiper-layers-1";
const maxManifestBytes = 65_536;
const layerName = /^[a-z0-9]{1,16}$/;
/** Age at which an interrupted import is removed, ms. */
const leftoverMs = 86_400_000;
/** Maximum time of the sync of an import, ms. */
const syncMs = 600_000;

/** Moves the files of stopped sandboxes and of snapshots between folders of the driver. */
export class OciPortableFiles implements PortableFiles {
  readonly #files: () => SandboxFiles;
  /** Folder for imports. It is on the filesystem of the layers. */
  readonly #staging: string;

  /** `dir` is the driver's folder. */
  constructor(dir: string, files: () => SandboxFiles) {
    this.#files = files;
    this.#staging = join(dir, "imports");
  }

  async has(of: FilesOf): Promise<boolean> {
    return this.#files().listLayersOf(of) !== undefined;
  }

  async *export(of: FilesOf, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const files = this.#files();
    const layers = files.listLayersOf(of);
    if (!layers) throw new PlatformError("UnknownSandbox", { id: of.id });
    const manifest: Manifest = { format, rootless: isRootless(), layers };
    yield Buffer.from(`${JSON.stringify(manifest)}\n`);
    yield* packLayers(files.layers.folder, layers, signal);
  }

  async import(
    of: FilesOf,
    spec: PreparedSpec,
    source: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<void> {
    const folder = join(this.#staging, `${of.kind}-${of.id}`);
    await this.#clear(folder);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    try {
      const { manifest, rest } = await readManifest(source);
      await unpackLayers(folder, rest, signal);
      const found = readdirSync(folder).sort();
      if (found.join() !== [...manifest.layers].sort().join())
        throw new PlatformError("FilesNotImported", { reason: "the archive has other layers than it says" });
      // The sync makes sure that a record after a power failure has its files.
      const { code, reason } = await runProgram(["sync", "-f", folder], { timeoutMs: syncMs });
      if (code !== 0) throw new PlatformError("FilesNotImported", { reason });
      signal.throwIfAborted();
      this.#files().adopt(
        of,
        spec,
        manifest.layers.map((name) => join(folder, name)),
      );
    } finally {
      await this.#clear(folder);
    }
  }

  /** Removes the files of interrupted imports. */
  async removeLeftovers(): Promise<void> {
    for (const name of readNames(this.#staging)) {
      const folder = join(this.#staging, name);
      const changedAt = statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? Number.POSITIVE_INFINITY;
      if (Date.now() - changedAt > leftoverMs) await this.#clear(folder);
    }
  }

  async #clear(folder: string): Promise<void> {
    await removeTrees([folder]);
    rmSync(folder, { recursive: true, force: true });
  }
}

function readNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

async function readManifest(
  source: AsyncIterable<Uint8Array>,
): Promise<{ manifest: Manifest; rest: AsyncGenerator<Uint8Array> }> {
  const chunks = source[Symbol.asyncIterator]();
  let begun = Buffer.alloc(0);
  let end = -1;
  while (end === -1 && begun.length < maxManifestBytes) {
    const { value, done } = await chunks.next();
    if (done) break;
    begun = Buffer.concat([begun, value]);
    end = begun.indexOf("\n");
  }
  const manifest = parseManifest(begun.toString("utf8", 0, Math.max(end, 0)));
  async function* rest() {
    yield begun.subarray(end + 1);
    for (;;) {
      const { value, done } = await chunks.next();
      if (done) return;
      yield value as Uint8Array;
    }
  }
  return { manifest, rest: rest() };
}

function parseManifest(text: string): Manifest {
  const refuse = (reason: string) => new PlatformError("FilesNotImported", { reason });
  let manifest: Manifest;
  try {
    manifest = JSON.parse(text);
  } catch {
    throw refuse("they do not begin with a manifest");
  }
  if (manifest?.format !== format) throw refuse("another version or another driver has written them");
  if (!Array.isArray(manifest.layers) || !manifest.layers.every((name) => layerName.test(name)))
    throw refuse("their manifest is damaged");
  if (manifest.rootless !== isRootless())
    throw refuse(
      `a server ${manifest.rootless ? "without root" : "of root"} has written them, whose sandboxes have other ids`,
    );
  return manifest;
}
