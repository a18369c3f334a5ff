import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxSpec } from "../driver.ts";
import type { SandboxRow } from "../sandbox-store.ts";

/** Prefix of a spec id that names an image, such as `docker://python:3.13`. */
const imagePrefix = "docker://";

export interface SpecChoiceDeps {
  /** Specs of the server, at least one. The first spec is the default. */
  specs: SandboxSpec[];
  /** Returns the default spec of a user; undefined: the first of `specs`. */
  defaultSpec?: (userId: string) => Promise<SandboxSpec | undefined>;
  /** Returns the spec of an image that a user names. Throws SandboxSpecUnusable. */
  imageSpec?: (reference: string) => SandboxSpec;
}

/** Finds the specs of new and of stored sandboxes. */
export class SpecChoice {
  readonly #deps: SpecChoiceDeps;

  constructor(deps: SpecChoiceDeps) {
    this.#deps = deps;
  }

  /** The specs of the server, the default first. */
  list(): SandboxSpec[] {
    return [...this.#deps.specs];
  }

  /** The default spec of a user. */
  async getDefault(userId: string): Promise<SandboxSpec> {
    const { specs, defaultSpec } = this.#deps;
    return (await defaultSpec?.(userId)) ?? specs[0]!;
  }

  /** Throws SandboxSpecNotFound. */
  require(specId: string): SandboxSpec {
    const { specs, imageSpec } = this.#deps;
    if (specId.startsWith(imagePrefix) && imageSpec) return imageSpec(specId.slice(imagePrefix.length));
    const spec = specs.find(({ id }) => id === specId);
    if (!spec) throw new PlatformError("UnknownSandboxSpec", { id: specId });
    return spec;
  }

  /** The spec of a sandbox. Throws SandboxSpecNotFound for a row of an older schema. */
  ofRow(row: SandboxRow): SandboxSpec {
    return (row.spec as SandboxSpec | null) ?? this.require(row.specId);
  }
}
