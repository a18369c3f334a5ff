import type { ImageInspectInfo } from "dockerode";
import { PlatformError } from "../../../errors.ts";
import type { PreparedSpec, PrepareOptions, SandboxSpec, SandboxUser } from "../../driver.ts";
import type { Engine } from "./engine.ts";
import { userOfImage } from "./image-user.ts";
import { pull } from "./pull.ts";
import { engineName, parseReference, pinned, type Reference } from "./reference.ts";

/** A fetch that several callers wait for. */
interface Fetch {
  done: Promise<void>;
  listeners: Set<(text: string) => void>;
  abort: AbortController;
  waiting: number;
}

/** The images of an engine, as specs need them. */
export class Images {
  readonly #engine: Engine;
  readonly #installation: string;
  readonly #authFile: string | undefined;
  readonly #fetches = new Map<string, Fetch>();
  /** By image id and the text that was looked up. */
  readonly #users = new Map<string, SandboxUser>();

  constructor(engine: Engine, installation: string, authFile: string | undefined) {
    this.#engine = engine;
    this.#installation = installation;
    this.#authFile = authFile;
  }

  /**
   * An image that the engine has is taken as it is, as `docker run` does; another one is fetched. The reference is pinned by the digest that
   * the registry gave, or by the engine's id of an image that came from no registry.
   */
  async prepare(spec: SandboxSpec, options: PrepareOptions): Promise<PreparedSpec> {
    const { root } = spec;
    if (root.kind !== "image") {
      throw new PlatformError(
        "SandboxSpecUnusable",
        `The docker driver starts sandboxes from images only, not from ${root.kind === "host" ? "the host's files" : "a folder"}: give the spec an image, or use the oci driver.`,
      );
    }
    const reference = parseReference(root.reference);
    const image = (await this.#inspect(reference)) ?? (await this.#fetched(reference, options));
    const { Env, User, WorkingDir } = image.Config;
    const user =
      typeof spec.user === "object" && spec.user !== null ? spec.user : await this.#user(image.Id, spec.user ?? User ?? "");
    return {
      ...spec,
      root: { kind: "image", reference: pinned(reference, image.RepoDigests ?? []) ?? image.Id },
      env: { ...Object.fromEntries((Env ?? []).map(splitVariable)), ...spec.env },
      workingDir: spec.workingDir || WorkingDir || "/",
      user,
    };
  }

  async #inspect(reference: Reference): Promise<ImageInspectInfo | undefined> {
    const name = engineName(reference);
    return await this.#engine.ask(
      "tell about an image",
      (abortSignal) => this.#engine.docker.getImage(name).inspect({ abortSignal } as object),
      { 404: () => undefined },
    );
  }

  async #fetched(reference: Reference, options: PrepareOptions): Promise<ImageInspectInfo> {
    if (reference.kind === "local") throw new PlatformError("SandboxSpecUnusable", `The engine has no image ${reference.id}.`);
    await this.#fetch(reference, options);
    const image = await this.#inspect(reference);
    if (!image)
      throw new PlatformError("SandboxSpecUnusable", `The engine fetched ${engineName(reference)}, but does not have it.`);
    return image;
  }

  /** Callers for the same image share the fetch; it is given up when the last of them does. */
  async #fetch(reference: Extract<Reference, { kind: "named" }>, { onProgress, signal }: PrepareOptions): Promise<void> {
    signal?.throwIfAborted();
    const name = engineName(reference);
    const fetch = this.#fetches.get(name) ?? this.#begin(name, reference);
    if (onProgress) fetch.listeners.add(onProgress);
    fetch.waiting++;
    let onAbort = () => {};
    const aborted = new Promise<never>((_, reject) => {
      onAbort = () => reject(signal?.reason);
    });
    signal?.addEventListener("abort", onAbort);
    try {
      await Promise.race([fetch.done, aborted]);
    } finally {
      signal?.removeEventListener("abort", onAbort);
      if (onProgress) fetch.listeners.delete(onProgress);
      if (--fetch.waiting === 0) {
        fetch.abort.abort();
        if (this.#fetches.get(name) === fetch) this.#fetches.delete(name);
      }
    }
  }

  #begin(name: string, reference: Extract<Reference, { kind: "named" }>): Fetch {
    const listeners = new Set<(text: string) => void>();
    const abort = new AbortController();
    const done = pull(this.#engine, reference, this.#authFile, {
      onProgress: (text) => {
        for (const listener of listeners) listener(text);
      },
      signal: abort.signal,
    });
    // Nobody may be waiting any more when it fails.
    done.catch(() => {});
    const fetch = { done, listeners, abort, waiting: 0 };
    this.#fetches.set(name, fetch);
    return fetch;
  }

  async #user(image: string, text: string): Promise<SandboxUser> {
    const key = `${image} ${text}`;
    const known = this.#users.get(key) ?? (await userOfImage(this.#engine, image, text, this.#installation));
    this.#users.set(key, known);
    return known;
  }
}

function splitVariable(text: string): [string, string] {
  const equals = text.indexOf("=");
  return equals < 0 ? [text, ""] : [text.slice(0, equals), text.slice(equals + 1)];
}
