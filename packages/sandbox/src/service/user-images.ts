import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxSpec } from "../driver.ts";
import type { SandboxRow, SnapshotStore } from "../sandbox-store.ts";

export interface UserImagesDeps {
  /** The user of a sandbox; undefined when it is gone. */
  owner: (id: string) => string | undefined;
  snapshots: Pick<SnapshotStore, "owners" | "get">;
  /** Specs of the operator, whose images do not count. */
  specs: readonly Pick<SandboxSpec, "id">[];
  /** Reads the user's sandboxes of all servers; undefined in a server that is alone. */
  everywhere?: ((userId: string) => Promise<SandboxRow[]>) | undefined;
  /** How many images the sandboxes and snapshots of one user may keep; 0: no limit. */
  max: number;
}

/** Counts the images that users chose and that their sandboxes and snapshots keep. */
export class UserImages {
  readonly #deps: UserImagesDeps;
  /** By sandbox: its image, with the digest once it is known. */
  readonly #images = new Map<string, string>();
  /**
   * Image of each snapshot by its id; undefined when the user did not choose one. It never changes.
   */
  readonly #ofSnapshots = new Map<string, string | undefined>();

  constructor(deps: UserImagesDeps) {
    this.#deps = deps;
  }

  /** Counts the image of a sandbox that exists. */
  note(row: SandboxRow): void {
    const image = this.#chosen(row.spec as SandboxSpec | null);
    if (image !== undefined) this.#images.set(row.id, image);
  }

  /**
   * Counts the image of a sandbox that is being started, before and after its digest is known.
   * Throws TooManySandboxes when its user would keep one image too many.
   */
  async admit(
    { id, userId, createdAt }: Pick<SandboxRow, "id" | "userId" | "createdAt">,
    spec: SandboxSpec,
  ): Promise<void> {
    const image = this.#chosen(spec);
    if (image === undefined) return;
    const { max } = this.#deps;
    const elsewhere = max > 0 ? await this.#readElsewhere(userId, { id, createdAt }) : [];
    const ofSnapshots = max > 0 ? await this.#readSnapshots(userId) : [];
    // No await follows, so that concurrent starts count each other.
    this.#images.delete(id);
    const kept = this.#kept(userId, [...ofSnapshots, ...elsewhere]);
    // A tag counts as the image that it was before.
    const isKept = kept.has(image) || [...kept].some((one) => one.startsWith(`${image}@`));
    if (max > 0 && !isKept && kept.size >= max) throw new PlatformError("TooManyImages", { max });
    this.#images.set(id, image);
  }

  #kept(userId: string, ofSnapshots: readonly string[]): Set<string> {
    const { owner } = this.#deps;
    const kept = new Set(ofSnapshots);
    for (const [id, image] of this.#images) {
      const user = owner(id);
      if (user === undefined) this.#images.delete(id);
      else if (user === userId) kept.add(image);
    }
    return kept;
  }

  /**
   * Reads the images of a user's sandboxes at other servers. Of two sandboxes that are started at
   * the same time, only the earlier one counts for the other one.
   */
  async #readElsewhere(
    userId: string,
    { id, createdAt }: Pick<SandboxRow, "id" | "createdAt">,
  ): Promise<string[]> {
    const { everywhere, owner } = this.#deps;
    const rows = ((await everywhere?.(userId)) ?? []).filter((row) => owner(row.id) === undefined);
    const isEarlier = (row: SandboxRow) =>
      row.createdAt < createdAt || (row.createdAt === createdAt && row.id < id);
    return rows
      .filter((row) => row.prepared || (row.status === "STARTING" && isEarlier(row)))
      .flatMap((row) => this.#chosen(row.spec as SandboxSpec | null) ?? []);
  }

  /** Reads the images of a user's snapshots. */
  async #readSnapshots(userId: string): Promise<string[]> {
    const { snapshots } = this.#deps;
    const owners = await snapshots.owners();
    const ids = new Set(owners.map(({ id }) => id));
    for (const id of this.#ofSnapshots.keys()) if (!ids.has(id)) this.#ofSnapshots.delete(id);
    const own = owners.filter((one) => one.userId === userId);
    for (const { id } of own) {
      if (this.#ofSnapshots.has(id)) continue;
      const row = await snapshots.get(id);
      if (row) this.#ofSnapshots.set(id, this.#chosen(row.spec as SandboxSpec | null));
    }
    return own.flatMap(({ id }) => this.#ofSnapshots.get(id) ?? []);
  }

  /** The image of a spec that is not the operator's. */
  #chosen(spec: SandboxSpec | null): string | undefined {
    if (spec?.root.kind !== "image" || this.#deps.specs.some(({ id }) => id === spec.id)) return undefined;
    return spec.root.reference;
  }
}
