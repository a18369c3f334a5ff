import type { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import type { PrepareOptions } from "../../driver.ts";
import type { RegistryImage } from "../../specs/image-reference.ts";
import { toFetchError } from "../common/images/problems.ts";
import { findCredentials } from "./credentials.ts";
import { type Engine, EngineTimeout } from "./engine.ts";
import { toEngineName } from "./engine-image.ts";

/** Timeout for the first answer of a registry, ms. */
const answerTimeoutMs = 20_000;
/** Longest silence during a transfer, ms. */
const silenceTimeoutMs = 90_000;
const progressIntervalMs = 500;

/** One line of the engine's answer to a pull. */
interface Line {
  status?: string;
  id?: string;
  progressDetail?: { current?: number; total?: number };
  error?: string;
}

/** Makes the engine fetch an image. Throws SandboxSpecUnusable or the signal's reason. */
export async function pullImage(
  engine: Engine,
  image: RegistryImage,
  authFile: string | undefined,
  options: PrepareOptions,
): Promise<void> {
  const { onProgress = () => {}, signal } = options;
  signal?.throwIfAborted();
  const authconfig = findCredentials(image.registry, authFile);
  onProgress(`asking ${image.registry} for ${image.name}`);
  const refused = (message: string): never => {
    throw pullProblem(image, message);
  };
  const answer = await engine
    .request(
      "fetch an image",
      async (abortSignal) => {
        const request = {
          fromImage: `${image.registry}/${image.repository}`,
          tag: image.digest ?? image.tag,
          ...(authconfig ? { authconfig } : {}),
          abortSignal,
        };
        return (await engine.docker.createImage(request)) as Readable;
      },
      { 400: refused, 401: refused, 403: refused, 404: refused, 500: refused },
      answerTimeoutMs,
    )
    .catch((error: unknown) => {
      throw error instanceof EngineTimeout ? pullProblem(image, "", true) : error;
    });
  const progress = new Progress(onProgress);
  let silent = false;
  let timer: NodeJS.Timeout | undefined;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      silent = true;
      answer.destroy();
    }, silenceTimeoutMs);
  };
  const onAbort = () => answer.destroy();
  signal?.addEventListener("abort", onAbort);
  let failed: string | undefined;
  try {
    wait();
    let rest = "";
    for await (const chunk of answer.setEncoding("utf8")) {
      wait();
      const lines = `${rest}${chunk}`.split("\n");
      rest = lines.pop() ?? "";
      for (const text of lines.filter((one) => one.trim() !== "")) {
        const line = JSON.parse(text) as Line;
        if (line.error !== undefined) failed = line.error;
        progress.take(line);
      }
    }
  } catch {
    // The transfer broke off or was cancelled; the checks below decide.
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
  signal?.throwIfAborted();
  if (silent) throw pullProblem(image, "", true);
  if (failed !== undefined) throw pullProblem(image, failed);
  if (!answer.readableEnded) throw new PlatformError("EnginePullInterrupted", { image: toEngineName(image) });
}

/** Summarizes the engine's lines about layers for people. */
class Progress {
  readonly #report: (text: string) => void;
  readonly #layers = new Map<string, { current: number; total: number; done: boolean }>();
  #last = 0;

  constructor(report: (text: string) => void) {
    this.#report = report;
  }

  take({ status = "", id, progressDetail }: Line): void {
    if (id === undefined || !/^[0-9a-f]{12}$/.test(id)) return;
    const layer = this.#layers.get(id) ?? { current: 0, total: 0, done: false };
    this.#layers.set(id, layer);
    if (status === "Downloading") Object.assign(layer, { current: 0, total: 0 }, progressDetail);
    if (/complete|exists/i.test(status)) Object.assign(layer, { current: layer.total, done: true });
    if (Date.now() - this.#last < progressIntervalMs) return;
    this.#last = Date.now();
    const layers = [...this.#layers.values()];
    const sum = (of: "current" | "total") => Math.round(layers.reduce((all, one) => all + one[of], 0) / 1e6);
    const done = layers.filter((one) => one.done).length;
    this.#report(
      `fetching layer ${Math.min(done + 1, layers.length)} of ${layers.length}, ${sum("current")} of ${sum("total")} MB`,
    );
  }
}

/** Maps the engine's messages to errors. They come from the same libraries as skopeo's. */
function pullProblem(image: RegistryImage, words: string, timedOut = false): PlatformError {
  if (/no matching manifest|does not match the specified platform/i.test(words))
    return new PlatformError("ImageArchitectureMissing", { name: image.name });
  if (/server gave HTTP response to HTTPS client/i.test(words))
    return new PlatformError("EngineRegistryPlainHttp", { registry: image.registry });
  // The engine's message when it has no credentials.
  if (/no basic auth credentials/i.test(words)) return pullProblem(image, "unauthorized");
  return toFetchError(image, { problem: words.trim().replace(/\.$/, ""), timedOut });
}
