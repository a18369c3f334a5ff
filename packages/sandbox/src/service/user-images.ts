import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxSpec } from "../driver.ts";
import type { SandboxRow, SnapshotStore } from "../sandbox-store.ts";

export interface UserImagesDeps {
  /** The user of a sandbox; undefined when it is gone. */
  owner: (id: string) => string | undefined;
  snapshots: Pick<SnapshotStore, "owners" | "get">;
  /** Specs of the operator, whose images do not count. */
  specs: readonly Pick<SandboxSpec, "id">[];
  /** How many images the sandboxes and snapshots of one user may keep; 0: no limit. */
  max: number;
}

/** Counts the images that users chose and that their sandboxes and snapshots keep. */
export class UserImages {
  readonly #deps: UserImagesDeps;
  /** By sandbox: its image, with the digest once it is known. */
  readonly #images = new Map<string, string>();

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
  admit({ id, userId }: Pick<SandboxRow, "id" | "userId">, spec: SandboxSpec): void {
    const image = this.#chosen(spec);
    if (image === undefined) return;
    const { max } = this.#deps;
    this.#images.delete(id);
    const kept = this.#kept(userId);
    // A tag counts as the image that it was before.
    const isKept = kept.has(image) || [...kept].some((one) => one.startsWith(`${image}@`));
    if (max > 0 && !isKept && kept.size >= max) throw new PlatformError("TooManyImages", { max });
    this.#images.set(id, image);
  }

  #kept(userId: string): Set<string> {
    const { owner, snapshots } = this.#deps;
    const kept = new Set<string>();
    for (const [id, image] of this.#images) {
      const user = owner(id);
      if (user === undefined) this.#images.delete(id);
      else if (user === userId) kept.add(image);
    }
    for (const snapshot of snapshots.owners()) {
      if (snapshot.userId !== userId) continue;
      const image = this.#chosen((snapshots.get(snapshot.id)?.spec ?? null) as SandboxSpec | null);
      if (image !== undefined) kept.add(image);
    }
    return kept;
  }

  /** The image of a spec that is not the operator's. */
  #chosen(spec: SandboxSpec | null): string | undefined {
    if (spec?.root.kind !== "image" || this.#deps.specs.some(({ id }) => id === spec.id)) return undefined;
    return spec.root.reference;
  }
}
