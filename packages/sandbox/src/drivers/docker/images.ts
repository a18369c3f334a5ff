import { PlatformError } from "@sandpiper/core/errors";
import { SingleFlight } from "@sandpiper/core/scheduling/single-flight";
import type { ImageInspectInfo } from "dockerode";
import type { PreparedSpec, PrepareOptions, SandboxSpec, SandboxUser } from "../../driver.ts";
import { formatSize } from "../../service/disk-space.ts";
import type { Registries } from "../../specs/registries.ts";
import { FetchTurns } from "../common/images/fetch-turns.ts";
import type { Engine } from "./engine.ts";
import { type EngineImage, parseEngineImage, pinReference, toEngineName } from "./engine-image.ts";
import { findImageUser } from "./image-user.ts";
import { pullImage } from "./pull-image.ts";

export interface ImagesOptions {
  installation: string;
  authFile: string | undefined;
  registries: Registries;
  /** Bytes of an image; 0: no limit. */
  maxBytes: number;
}

/** Prepares specs by the images of an engine. */
export class Images {
  readonly #engine: Engine;
  readonly #options: ImagesOptions;
  readonly #fetches = new SingleFlight<void>();
  readonly #turns = new FetchTurns();
  /** By image id and user text. */
  readonly #users = new Map<string, SandboxUser>();

  constructor(engine: Engine, options: ImagesOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /**
   * Uses an image that the engine has, as `docker run` does, and fetches any other of a registry
   * that the engine may ask. The reference is pinned by the registry's digest, or by the engine's
   * id when the image has none.
   */
  async prepare(spec: SandboxSpec, options: PrepareOptions): Promise<PreparedSpec> {
    const { root, user } = spec;
    if (root.kind !== "image") {
      const given = root.kind === "host" ? "the host's files" : "a folder";
      throw new PlatformError("DockerNeedsImage", { given });
    }
    const wanted = parseEngineImage(root.reference);
    const image = (await this.#inspect(wanted)) ?? (await this.#fetchImage(wanted, options));
    const { Env, User, WorkingDir } = image.Config;
    return {
      ...spec,
      root: { kind: "image", reference: pinReference(wanted, image.Id, image.RepoDigests ?? []) },
      env: { ...Object.fromEntries((Env ?? []).map(splitVariable)), ...spec.env },
      workingDir: spec.workingDir || WorkingDir || "/",
      user:
        typeof user === "object" && user !== null
          ? user
          : await this.#user(image.Id, user ?? User ?? "", root.reference),
    };
  }

  async #inspect(image: EngineImage): Promise<ImageInspectInfo | undefined> {
    const handle = this.#engine.docker.getImage(toEngineName(image));
    return await this.#engine.request(
      "inspect an image",
      (abortSignal) => handle.inspect({ abortSignal } as object),
      {
        404: () => undefined,
        400: (reason) => {
          throw new PlatformError("EngineImageInvalid", { image: toEngineName(image), reason });
        },
      },
    );
  }

  async #fetchImage(image: EngineImage, options: PrepareOptions): Promise<ImageInspectInfo> {
    if (image.source === "engine") throw new PlatformError("EngineImageMissing", { image: image.id });
    const { authFile, registries, maxBytes } = this.#options;
    registries.checkEngine(image.registry);
    const { owner = "", ...rest } = options;
    await this.#fetches.run(toEngineName(image), rest, (report, signal) =>
      this.#turns.run(owner, { report, signal }, () =>
        pullImage(this.#engine, image, authFile, { onProgress: report, signal }),
      ),
    );
    const found = await this.#inspect(image);
    if (!found) throw new PlatformError("EngineImageMissing", { image: toEngineName(image) });
    if (maxBytes > 0 && found.Size > maxBytes) {
      // The engine has unpacked it already; images that the engine had before are used as they are.
      const handle = this.#engine.docker.getImage(toEngineName(image));
      await this.#engine.request("remove an image", () => handle.remove(), { 404: () => {}, 409: () => {} });
      throw new PlatformError("ImageTooLarge", { name: toEngineName(image), max: formatSize(maxBytes) });
    }
    return found;
  }

  async #user(id: string, text: string, reference: string): Promise<SandboxUser> {
    const key = `${id} ${text}`;
    const known =
      this.#users.get(key) ??
      (await findImageUser(this.#engine, this.#options.installation, id, text, reference));
    this.#users.set(key, known);
    return known;
  }
}

function splitVariable(text: string): [string, string] {
  const equals = text.indexOf("=");
  return equals < 0 ? [text, ""] : [text.slice(0, equals), text.slice(equals + 1)];
}
