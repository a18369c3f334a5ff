import type { Container } from "dockerode";
import { labels } from "./container-options.ts";
import { type Engine, longTimeoutMs, type RefusalHandlers } from "./engine.ts";

interface SnapshotImage {
  image: string;
  /** Ids of the snapshots whose files the image keeps. */
  names: string[];
}

/** Snapshots as images of the engine in a repository of this installation. */
export class DockerSnapshots {
  readonly #engine: Engine;
  readonly #installation: string;
  readonly #repository: string;

  constructor(engine: Engine, installation: string) {
    this.#engine = engine;
    this.#installation = installation;
    this.#repository = `sandpiper-snapshot/${installation}`;
  }

  imageName(snapshotId: string): string {
    return `${this.#repository}:${snapshotId}`;
  }

  /** Copies the written files of a container into an image. The container is paused meanwhile. */
  async save(container: Container, snapshotId: string, handlers: RefusalHandlers<never>): Promise<void> {
    const changes = [
      `LABEL ${labels.installation}=${this.#installation}`,
      `LABEL ${labels.snapshot}=${snapshotId}`,
    ];
    const request = { repo: this.#repository, tag: snapshotId, pause: true, changes };
    await this.#engine.request(
      "save the files of a sandbox",
      () => container.commit(request),
      handlers,
      longTimeoutMs,
    );
  }

  async remove(snapshotId: string): Promise<void> {
    await this.#removeImage(this.imageName(snapshotId));
  }

  async list(): Promise<string[]> {
    return (await this.images()).flatMap(({ names }) => names);
  }

  /** Removes the snapshots of `images` that are unknown, and images that have lost their name. */
  async reap(images: readonly SnapshotImage[], known: Pick<ReadonlySet<string>, "has">): Promise<void> {
    for (const { image, names } of images) {
      // An image without a name was removed while sandboxes used it.
      if (names.length === 0) await this.#removeImage(image);
      for (const name of names) if (!known.has(name)) await this.remove(name);
    }
  }

  /** The engine keeps an unnamed image while containers or other images need it. */
  async #removeImage(name: string): Promise<void> {
    const image = this.#engine.docker.getImage(name);
    const kept = { 404: () => {}, 409: () => {} };
    await this.#engine.request("remove a snapshot", () => image.remove({ force: true }), kept, longTimeoutMs);
  }

  async images(): Promise<SnapshotImage[]> {
    const filters = JSON.stringify({
      label: [`${labels.installation}=${this.#installation}`, labels.snapshot],
    });
    const images = await this.#engine.request("list its images", (abortSignal) =>
      this.#engine.docker.listImages({ filters, abortSignal }),
    );
    const prefix = `${this.#repository}:`;
    // Podman prefixes names without a registry with `localhost/`.
    return images.map(({ Id, RepoTags }) => ({
      image: Id,
      names: (RepoTags ?? []).flatMap((name) =>
        name.includes(prefix) ? [name.slice(name.indexOf(prefix) + prefix.length)] : [],
      ),
    }));
  }
}
