import type { Container } from "dockerode";
import { labels } from "./container.ts";
import { type Answers, type Engine, longPatienceMs } from "./engine.ts";

/** Snapshots as images of the engine, under a name of this installation. */
export class Snapshots {
  readonly #engine: Engine;
  readonly #installation: string;
  readonly #repository: string;

  constructor(engine: Engine, installation: string) {
    this.#engine = engine;
    this.#installation = installation;
    this.#repository = `sandpiper-snapshot/${installation}`;
  }

  imageOf(snapshotId: string): string {
    return `${this.#repository}:${snapshotId}`;
  }

  /** Copies what the container has written into an image. It is frozen meanwhile. */
  async save(container: Container, snapshotId: string, answers: Answers<never>): Promise<void> {
    const changes = [
      `LABEL ${labels.installation}=${this.#installation}`,
      `LABEL ${labels.snapshot}=${snapshotId}`,
    ];
    const request = { repo: this.#repository, tag: snapshotId, pause: true, changes };
    await this.#engine.ask(
      "keep the files of a sandbox",
      () => container.commit(request),
      answers,
      longPatienceMs,
    );
  }

  async remove(snapshotId: string): Promise<void> {
    await this.#removeImage(this.imageOf(snapshotId));
  }

  async list(): Promise<string[]> {
    return (await this.#images()).flatMap(({ names }) => names);
  }

  async reap(known: Set<string>): Promise<void> {
    for (const { image, names } of await this.#images()) {
      // One without a name was removed while sandboxes used it.
      if (names.length === 0) await this.#removeImage(image);
      for (const name of names) if (!known.has(name)) await this.remove(name);
    }
  }

  /** The engine keeps an image, without its name, as long as containers or other images need it. */
  async #removeImage(name: string): Promise<void> {
    const image = this.#engine.docker.getImage(name);
    const kept = { 404: () => {}, 409: () => {} };
    await this.#engine.ask("remove a snapshot", () => image.remove({ force: true }), kept, longPatienceMs);
  }

  async #images(): Promise<{ image: string; names: string[] }[]> {
    const filters = JSON.stringify({
      label: [`${labels.installation}=${this.#installation}`, labels.snapshot],
    });
    const images = await this.#engine.ask("list its images", (abortSignal) =>
      this.#engine.docker.listImages({ filters, abortSignal }),
    );
    const prefix = `${this.#repository}:`;
    // Podman puts `localhost/` before names without a registry.
    return images.map(({ Id, RepoTags }) => ({
      image: Id,
      names: (RepoTags ?? []).flatMap((name) =>
        name.includes(prefix) ? [name.slice(name.indexOf(prefix) + prefix.length)] : [],
      ),
    }));
  }
}
