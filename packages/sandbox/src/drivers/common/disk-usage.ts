import { PlatformError } from "@sandpiper/core/errors";
import { LRUCache } from "lru-cache";
import type { FileBounds, FileUsage } from "../../driver.ts";
import { runProgram } from "./run-program.ts";

/** Time for one walk, s; what was counted until then is a lower bound. */
const walkSeconds = 30;
/** Sealed layers whose counts are kept. */
const maxKept = 100_000;

/**
 * Arguments: seconds, most bytes, most files, folder of the layers, layers. Prints a line with the
 * counts of each layer, and ends early once their sum is over a bound.
 */
const script = `seconds=$1 bytes=$2 files=$3; cd -- "$4" || exit; shift 4
{ timeout -s KILL "$seconds" find "$@" -xdev -printf '%H %y %n %b %D:%i\\n' 2>/dev/null; echo "end $?"; } |
awk -v bytes="$bytes" -v files="$files" '
  $1 == "end" { late = $2 > 123; next }
  $2 != "d" && $3 > 1 && seen[$5]++ { next }
  { sum[$1] += $4 * 512; count[$1]++; if ((all += $4 * 512) > bytes || ++number > files) exit }
  END { for (layer in count) printf "%s %.0f %d %d\\n", layer, sum[layer], count[layer], late }' 2>/dev/null`;

export const unbounded: FileBounds = { diskBytes: Number.MAX_SAFE_INTEGER, files: Number.MAX_SAFE_INTEGER };

/** Measures layers in separate processes, so that many files do not block the server. */
export class DiskUsage {
  readonly #folder: string;
  readonly #running = new Map<string, Promise<FileUsage>>();
  /** Layers that never change again; each is walked once. */
  readonly #sealed = new LRUCache<string, FileUsage>({ max: maxKept });

  /** `folder` has the layers. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * The sum of a layer that may change and of the sealed layers below it. Hard links count once.
   * Concurrent calls for one layer share a walk. Throws SandboxFailed.
   */
  measure(upper: string, sealed: readonly string[], bounds: FileBounds): Promise<FileUsage> {
    const running = this.#running.get(upper);
    if (running) return running;
    const work = this.#measure(upper, sealed, bounds).finally(() => this.#running.delete(upper));
    this.#running.set(upper, work);
    return work;
  }

  /** The bytes of layers that never change again. Throws SandboxFailed. */
  async measureSealed(layers: readonly string[]): Promise<number> {
    const unknown = layers.filter((layer) => !this.#sealed.has(layer));
    const walked = unknown.length > 0 ? await this.#walk(unknown, unbounded) : new Map<string, FileUsage>();
    const isWhole = [...walked.values()].every(({ isPartial }) => !isPartial);
    if (isWhole) for (const [layer, usage] of walked) this.#sealed.set(layer, usage);
    const known = layers.flatMap((layer) => (walked.has(layer) ? [] : (this.#sealed.get(layer) ?? [])));
    return sum([...walked.values(), ...known]).diskBytes;
  }

  async #measure(upper: string, sealed: readonly string[], bounds: FileBounds): Promise<FileUsage> {
    const known = sealed.flatMap((layer) => this.#sealed.get(layer) ?? []);
    const walked = await this.#walk([upper, ...sealed.filter((layer) => !this.#sealed.has(layer))], bounds);
    const found = sum([...walked.values()]);
    const isWhole = !found.isPartial && found.diskBytes <= bounds.diskBytes && found.files <= bounds.files;
    if (isWhole) for (const [layer, usage] of walked) if (layer !== upper) this.#sealed.set(layer, usage);
    return sum([found, ...known]);
  }

  async #walk(layers: string[], { diskBytes, files }: FileBounds): Promise<Map<string, FileUsage>> {
    const args = [walkSeconds, diskBytes, files, this.#folder].map(String);
    const result = await runProgram(["sh", "-c", script, "sh", ...args, ...layers], {
      timeoutMs: (walkSeconds + 5) * 1_000,
    });
    const usages = new Map<string, FileUsage>();
    for (const line of result.output.split("\n")) {
      const [, layer, bytes, count, late] = /^(\S+) (\d+) (\d+) ([01])$/.exec(line) ?? [];
      if (layer)
        usages.set(layer, { diskBytes: Number(bytes), files: Number(count), isPartial: late === "1" });
    }
    if (usages.size > 0) return usages;
    throw new PlatformError("DiskUsageFailed", {
      reason: result.reason || `the count of its files ended with code ${result.code}`,
    });
  }
}

function sum(parts: readonly FileUsage[]): FileUsage {
  return {
    diskBytes: parts.reduce((total, { diskBytes }) => total + diskBytes, 0),
    files: parts.reduce((total, { files }) => total + files, 0),
    isPartial: parts.some(({ isPartial }) => isPartial),
  };
}
