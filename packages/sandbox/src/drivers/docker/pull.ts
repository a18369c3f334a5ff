import type { Readable } from "node:stream";
import type { PlatformError } from "@sandpiper/core/errors";
import type { PrepareOptions } from "../../driver.ts";
import type { RegistryImage } from "../../specs/image-reference.ts";
import { fetchProblem, unusable } from "../common/images/problems.ts";
import { credentialsFor } from "./credentials.ts";
import { type Engine, EngineSilent } from "./engine.ts";
import { engineName } from "./engine-image.ts";

/** Within which a registry must have answered, ms. */
const answerMs = 20_000;
/** Longest silence in the middle of a transfer, ms. */
const silenceMs = 90_000;
const progressMs = 500;

/** One line of the engine's answer to a pull. */
interface Line {
  status?: string;
  id?: string;
  progressDetail?: { current?: number; total?: number };
  error?: string;
}

/** Lets the engine fetch an image. Throws SandboxSpecUnusable with one sentence on what is wrong, or the signal's reason. */
export async function pull(
  engine: Engine,
  image: RegistryImage,
  authFile: string | undefined,
  options: PrepareOptions,
): Promise<void> {
  const { onProgress = () => {}, signal } = options;
  signal?.throwIfAborted();
  const authconfig = credentialsFor(image.registry, authFile);
  onProgress(`asking ${image.registry} for ${image.name}`);
  const refuse = (message: string): never => {
    throw problem(image, message);
  };
  const answer = await engine
    .ask(
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
      { 400: refuse, 401: refuse, 403: refuse, 404: refuse, 500: refuse },
      answerMs,
    )
    .catch((error: unknown) => {
      throw error instanceof EngineSilent ? problem(image, "", true) : error;
    });
  const progress = new Progress(onProgress);
  let silent = false;
  let timer: NodeJS.Timeout | undefined;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      silent = true;
      answer.destroy();
    }, silenceMs);
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
    // It broke off, or was broken off; which of them, is told below.
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
  signal?.throwIfAborted();
  if (silent) throw problem(image, "", true);
  if (failed !== undefined) throw problem(image, failed);
  if (!answer.readableEnded)
    throw unusable(`The engine broke off while it fetched ${engineName(image)}: try again.`);
}

/** Turns the engine's lines about layers into a few for people. */
class Progress {
  readonly #tell: (text: string) => void;
  readonly #layers = new Map<string, { current: number; total: number; done: boolean }>();
  #last = 0;

  constructor(tell: (text: string) => void) {
    this.#tell = tell;
  }

  take({ status = "", id, progressDetail }: Line): void {
    if (id === undefined || !/^[0-9a-f]{12}$/.test(id)) return;
    const layer = this.#layers.get(id) ?? { current: 0, total: 0, done: false };
    this.#layers.set(id, layer);
    if (status === "Downloading") Object.assign(layer, { current: 0, total: 0 }, progressDetail);
    if (/complete|exists/i.test(status)) Object.assign(layer, { current: layer.total, done: true });
    if (Date.now() - this.#last < progressMs) return;
    this.#last = Date.now();
    const layers = [...this.#layers.values()];
    const sum = (of: "current" | "total") => Math.round(layers.reduce((all, one) => all + one[of], 0) / 1e6);
    const done = layers.filter((one) => one.done).length;
    this.#tell(
      `fetching layer ${Math.min(done + 1, layers.length)} of ${layers.length}, ${sum("current")} of ${sum("total")} MB`,
    );
  }
}

/** One sentence from the engine's many ways to say that an image cannot be had. They come from the same libraries as skopeo's. */
function problem(image: RegistryImage, words: string, timedOut = false): PlatformError {
  if (/no matching manifest|does not match the specified platform/i.test(words))
    return unusable(`The image ${image.name} does not exist for this machine's architecture.`);
  if (/server gave HTTP response to HTTPS client/i.test(words))
    return unusable(
      `The registry ${image.registry} speaks plain HTTP: allow it as an insecure registry in the engine's configuration.`,
    );
  // The engine's own words for credentials that it was not given.
  if (/no basic auth credentials/i.test(words)) return problem(image, "unauthorized");
  return fetchProblem(image, {
    ok: false,
    stdout: Buffer.alloc(0),
    problem: words.trim().replace(/\.$/, ""),
    timedOut,
  });
}
