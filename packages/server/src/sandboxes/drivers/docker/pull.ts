import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { PlatformError } from "../../../errors.ts";
import type { PrepareOptions } from "../../driver.ts";
import { credentialsFor } from "./credentials.ts";
import type { Engine } from "./engine.ts";
import { engineName, type Reference } from "./reference.ts";

type Named = Extract<Reference, { kind: "named" }>;

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
  reference: Named,
  authFile: string | undefined,
  options: PrepareOptions,
): Promise<void> {
  const { onProgress = () => {}, signal } = options;
  signal?.throwIfAborted();
  const authconfig = credentialsFor(reference.registry, authFile);
  onProgress(`asking ${reference.registry} for ${reference.text}`);
  const refuse = (message: string): never => {
    throw problem(reference, message);
  };
  const answer = await engine
    .ask(
      "fetch an image",
      async (abortSignal) => {
        const request = { fromImage: reference.name, tag: reference.version, ...(authconfig ? { authconfig } : {}), abortSignal };
        return (await engine.docker.createImage(request)) as Readable;
      },
      { 400: refuse, 401: refuse, 403: refuse, 404: refuse, 500: refuse },
      answerMs,
    )
    .catch((error: unknown) => {
      if (error instanceof PlatformError && /did not answer within/.test(error.message)) throw problem(reference, "timeout");
      throw error;
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
    // Destroying the source ends the lines without an error; what ended it is asked below.
    answer.on("error", () => {});
    for await (const text of createInterface({ input: answer })) {
      wait();
      const line = JSON.parse(text) as Line;
      if (line.error !== undefined) failed = line.error;
      progress.take(line);
    }
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
  signal?.throwIfAborted();
  if (silent) throw problem(reference, "timeout");
  if (failed !== undefined) throw problem(reference, failed);
  if (!answer.readableEnded) throw problem(reference, "the engine broke off");
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

/** One sentence from the engine's many ways to say that an image cannot be had. */
function problem(reference: Named, message: string): PlatformError {
  const name = engineName(reference);
  const { registry } = reference;
  const words = message.trim().replace(/\.$/, "");
  const sentence = (() => {
    if (/no space left/i.test(words)) return `There is no space left for the image ${name} on the engine's disk.`;
    if (/no matching manifest|does not match the specified platform/i.test(words))
      return `The image ${name} does not exist for this machine's architecture.`;
    if (/unauthorized|authentication required|access denied|no basic auth|forbidden|incorrect username/i.test(words))
      return `The registry ${registry} refused access to ${name}: it does not exist, or the credentials for ${registry} are missing or wrong.`;
    if (/manifest unknown|not found|does not exist|name unknown/i.test(words))
      return `The registry ${registry} has no image ${name}.`;
    if (/verification failed|digest mismatch|unexpected digest/i.test(words))
      return `What the registry ${registry} gave for ${name} does not have that digest.`;
    if (
      /timeout|deadline|connection refused|no such host|no route|unreachable|dial tcp|EOF|lookup|server misbehaving/i.test(words)
    )
      return `The registry ${registry} cannot be reached for ${name} (${words}).`;
    if (/server gave HTTP response to HTTPS client/i.test(words))
      return `The registry ${registry} does not speak TLS; allow it as an insecure registry in the engine's configuration.`;
    return `The image ${name} could not be fetched: ${words}.`;
  })();
  return new PlatformError("SandboxSpecUnusable", sentence);
}
