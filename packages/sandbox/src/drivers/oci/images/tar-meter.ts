import { PlatformError } from "@sandpiper/core/errors";
import { formatSize } from "../../../service/disk-space.ts";
import { blockBytes, TarInvalid } from "../../../tar/tar-header.ts";
import { TarReader } from "../../../tar/tar-reader.ts";

/** What an image may unpack to; `bytes` 0: no limit. */
export interface ImageLimits {
  bytes: number;
  /** Entries of its layers. */
  files: number;
  /** Names in a path. */
  depth: number;
}

/** What may follow the end of a layer, bytes: programs fill it up to the block of a tape. */
const maxTrailing = 2 ** 26;
/** Characters of a path; no system has longer ones. */
const maxPath = 4_096;

/**
 * Counts what the layers of an image unpack to, from their uncompressed tar streams. `name` is that
 * of the image.
 */
export class TarMeter {
  readonly #name: string;
  readonly #limits: ImageLimits;
  #reader = new TarReader();
  #bytes = 0;
  #files = 0;
  /** Bytes of the streams, which cost time even where they unpack to nothing. */
  #stream = 0;

  constructor(name: string, limits: ImageLimits) {
    this.#name = name;
    const { bytes, ...rest } = limits;
    this.#limits = { ...rest, bytes: bytes === 0 ? Number.MAX_SAFE_INTEGER : bytes };
  }

  /** What the layers so far unpack to. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The stream of another layer begins. */
  nextLayer(): void {
    this.#reader = new TarReader();
  }

  /** Throws SandboxSpecUnusable as soon as a limit is exceeded. */
  take(chunk: Buffer): void {
    this.#stream += chunk.length;
    const { bytes, files } = this.#limits;
    if (this.#stream > bytes + files * 2 * blockBytes) throw this.#tooLarge();
    try {
      for (const part of this.#reader.read(chunk))
        if (part.kind === "entry")
          this.#count(part.entry.path, Math.max(part.entry.size, part.entry.realSize));
    } catch (error) {
      throw error instanceof TarInvalid ? this.#invalid(`a layer ${error.message}`) : error;
    }
    if (this.#reader.trailing > maxTrailing) throw this.#invalid("a layer goes on after its end");
  }

  #count(path: string, bytes: number): void {
    const { bytes: maxBytes, files, depth } = this.#limits;
    this.#bytes += bytes;
    this.#files += 1;
    if (this.#bytes > maxBytes) throw this.#tooLarge();
    if (this.#files > files) throw new PlatformError("ImageTooManyFiles", { name: this.#name, max: files });
    if (path.length > maxPath) throw this.#invalid(`a layer has a path of more than ${maxPath} characters`);
    const names = path.split("/").filter((name) => name !== "" && name !== ".");
    if (names.length > depth) throw new PlatformError("ImageTooDeep", { name: this.#name, max: depth });
  }

  #tooLarge(): PlatformError {
    const max = formatSize(this.#limits.bytes);
    return new PlatformError("ImageTooLarge", { name: this.#name, max });
  }

  #invalid(reason: string): PlatformError {
    return new PlatformError("ImageInvalid", { name: this.#name, reason });
  }
}
