import { SingleFlight } from "@sandpiper/core/scheduling/single-flight";
import type { ImageInspectInfo } from "dockerode";
import type { PreparedSpec, PrepareOptions, SandboxSpec, SandboxUser } from "../../driver.ts";
import type { RegistryImage } from "../../specs/image-reference.ts";
import { unusable } from "../common/images/problems.ts";
import type { Engine } from "./engine.ts";
import { type EngineImage, engineName, parseEngineImage, pinnedReference } from "./engine-image.ts";
import { userOfImage } from "./image-user.ts";
import { pull } from "./pull.ts";

/** The images of an engine, as specs need them. */
export class Images {
  readonly #engine: Engine;
  readonly #installation: string;
  readonly #authFile: string | undefined;
  readonly #fetches = new SingleFlight<void>();
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
    const { root, user } = spec;
    if (root.kind !== "image") {
      const what = root.kind === "host" ? "the host's files" : "a folder";
      throw unusable(
        `The docker driver starts sandboxes from images alone, not from ${what}: give the spec an image, or use the oci driver.`,
      );
    }
    const wanted = parseEngineImage(root.reference);
    const image = (await this.#inspect(wanted)) ?? (await this.#fetched(wanted, options));
    const { Env, User, WorkingDir } = image.Config;
    return {
      ...spec,
      root: { kind: "image", reference: pinnedReference(wanted, image.Id, image.RepoDigests ?? []) },
      env: { ...Object.fromEntries((Env ?? []).map(splitVariable)), ...spec.env },
      workingDir: spec.workingDir || WorkingDir || "/",
      user:
        typeof user === "object" && user !== null
          ? user
          : await this.#user(image.Id, user ?? User ?? "", root.reference),
    };
  }

  async #inspect(image: EngineImage): Promise<ImageInspectInfo | undefined> {
    const handle = this.#engine.docker.getImage(engineName(image));
    return await this.#engine.ask(
      "tell about an image",
      (abortSignal) => handle.inspect({ abortSignal } as object),
      {
        404: () => undefined,
        400: (message) => {
          throw unusable(`The engine takes ${engineName(image)} for no image reference: ${message}.`);
        },
      },
    );
  }

  async #fetched(image: EngineImage, options: PrepareOptions): Promise<ImageInspectInfo> {
    if (image.source === "engine") throw unusable(`The engine has no image ${image.id}.`);
    await this.#fetch(image, options);
    const found = await this.#inspect(image);
    if (!found) throw unusable(`The engine fetched ${engineName(image)}, but does not have it.`);
    return found;
  }

  async #fetch(image: RegistryImage, options: PrepareOptions): Promise<void> {
    await this.#fetches.run(engineName(image), options, (onProgress, signal) =>
      pull(this.#engine, image, this.#authFile, { onProgress, signal }),
    );
  }

  async #user(id: string, text: string, reference: string): Promise<SandboxUser> {
    const key = `${id} ${text}`;
    const known =
      this.#users.get(key) ?? (await userOfImage(this.#engine, this.#installation, id, text, reference));
    this.#users.set(key, known);
    return known;
  }
}

function splitVariable(text: string): [string, string] {
  const equals = text.indexOf("=");
  return equals < 0 ? [text, ""] : [text.slice(0, equals), text.slice(equals + 1)];
}
