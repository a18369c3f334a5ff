import { randomBytes } from "node:crypto";
import type { SandboxSecret } from "@sandpiper/sandbox/network/sandbox-secret";

/** How the variables of lent secrets begin. */
export const lentPrefix = "SANDPIPER_LENT_";

interface Place {
  userId: string;
  sandboxId: string;
}

/**
 * Secrets that a sandbox's network fills in for one command. They are in memory only, no list shows
 * them, and only one host gets them.
 */
export class LentSecrets {
  readonly #lent = new Map<string, SandboxSecret[]>();

  /** Lends a value; `variable` has the placeholder. The returned function takes it back. */
  lend(place: Place, host: string, value: string): { variable: string; takeBack: () => void } {
    const variable = `${lentPrefix}${randomBytes(12).toString("hex").toUpperCase()}`;
    const secret: SandboxSecret = { name: variable, variable, description: null, hosts: [host], value };
    const key = toKey(place);
    this.#lent.set(key, [...(this.#lent.get(key) ?? []), secret]);
    const takeBack = () => {
      const rest = (this.#lent.get(key) ?? []).filter((one) => one !== secret);
      if (rest.length > 0) this.#lent.set(key, rest);
      else this.#lent.delete(key);
    };
    return { variable, takeBack };
  }

  /** The secrets of a sandbox, and what is lent to it. Cheap: call it for each use. */
  addTo(secrets: readonly SandboxSecret[], place: Place): readonly SandboxSecret[] {
    const lent = this.#lent.get(toKey(place));
    return lent ? [...secrets, ...lent] : secrets;
  }
}

function toKey({ userId, sandboxId }: Place): string {
  return `${sandboxId} ${userId}`;
}
