import { PlatformError } from "@sandpiper/core/errors";
import { runCommand } from "../container/runtime.ts";

const timeoutMs = 60_000;

/** Measures folders, each once at a time however many ask for it. */
export class DiskUsage {
  readonly #running = new Map<string, Promise<number>>();

  /**
   * Bytes that a folder takes on its filesystem, links not followed, what several names stand for counted once. It may change meanwhile.
   * A process of its own looks, so that many files keep nobody waiting. Throws SandboxFailed after a minute.
   */
  measure(folder: string): Promise<number> {
    const running = this.#running.get(folder);
    if (running) return running;
    const work = sizeOf(folder).finally(() => this.#running.delete(folder));
    this.#running.set(folder, work);
    return work;
  }
}

async function sizeOf(folder: string): Promise<number> {
  const result = await runCommand(["du", "-sx", "--block-size=1", "--", folder], { timeoutMs });
  // What vanishes while it looks makes du complain, not fail to count.
  const size = /^(\d+)\t/.exec(result.output)?.[1];
  if (size === undefined) {
    const reason = result.reason || `du ended with code ${result.code}`;
    throw new PlatformError("SandboxFailed", `The files of the sandbox could not be measured: ${reason}.`);
  }
  return Number(size);
}
