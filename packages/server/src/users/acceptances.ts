import { digestBehaviour } from "@sandpiper/agent/behaviour/behaviour";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import { type Behaviour, type BehaviourPart, isoTime } from "@sandpiper/wire";
import type { AcceptanceRow, BehaviourRow, BehaviourStore } from "../store/behaviour-store.ts";
import type { Acceptances, FoundBehaviour } from "./api.ts";

/** Acceptances of a user, and characters that each keeps of its parts. */
const maxAcceptances = 500;
const maxKeptText = 20_000;

/** Behaviours of a sandbox that are kept in full, and characters and parts of each. */
const maxFound = 10;
const maxText = 1_048_576;
const maxParts = 2_000;

export interface StoredAcceptancesOptions {
  store: BehaviourStore;
  publicUrl: () => string;
}

/** Decides what projects may do: the one place that knows what users have accepted. */
export class StoredAcceptances implements Acceptances {
  readonly #options: StoredAcceptancesOptions;
  /** Serialises the searches in a sandbox, and the acceptances of a user. */
  readonly #changes = new KeyedMutex();

  constructor(options: StoredAcceptancesOptions) {
    this.#options = options;
  }

  async record(found: FoundBehaviour): Promise<Behaviour | undefined> {
    const { userId, sandboxId, workingDir, worktreeOf, parts } = found;
    if (parts.length === 0) return undefined;
    const { store } = this.#options;
    const digest = await this.#changes.run(`sandbox ${sandboxId}`, async () => {
      const folders = [workingDir, worktreeOf].flatMap((folder) => (folder ? [folder] : []));
      const known = await Promise.all(folders.map((folder) => store.findOrigin(sandboxId, folder)));
      const origin = known.find(Boolean) || found.origin || `sandbox ${sandboxId}`;
      const row = { holder: sandboxId, userId, workingDir, digest: digestBehaviour(origin, parts), origin };
      await store.add({ ...row, parts: shorten(parts, maxText) }, maxFound);
      return row.digest;
    });
    return this.get(userId, digest);
  }

  async withheld(userId: string, sandboxId: string): Promise<string | undefined> {
    const found = await this.pending(userId, sandboxId);
    return (
      found && new PlatformError("BehaviourNotAccepted", { origin: found.origin, link: found.link }).message
    );
  }

  async pending(userId: string, sandboxId: string): Promise<Behaviour | undefined> {
    const row = await this.#options.store.findUnaccepted(userId, sandboxId);
    return row && this.#present([row], undefined);
  }

  async list(userId: string, sandboxId?: string): Promise<Behaviour[]> {
    const { store } = this.#options;
    const [acceptances, rows] = await Promise.all([
      store.listAccepted(userId),
      store.list(userId, sandboxId),
    ]);
    const accepted = new Map(acceptances.map((row) => [row.digest, row]));
    const found = Map.groupBy(rows, ({ digest }) => digest);
    const open = [...found].map(([digest, rows]) => this.#present(rows, accepted.get(digest)));
    if (sandboxId !== undefined) return open;
    const gone = [...accepted.values()].filter(({ digest }) => !found.has(digest));
    return [...open, ...gone.map((row) => this.#present([], row))];
  }

  async get(userId: string, digest: string): Promise<Behaviour> {
    const behaviour = (await this.list(userId)).find((one) => one.digest === digest);
    if (!behaviour) throw new PlatformError("BehaviourUnknown");
    return behaviour;
  }

  accept(userId: string, digest: string): Promise<Behaviour> {
    return this.#changes.run(`user ${userId}`, () => this.#accept(userId, digest));
  }

  async revoke(userId: string, digest: string): Promise<void> {
    await this.#options.store.revoke(userId, digest);
  }

  async #accept(userId: string, digest: string): Promise<Behaviour> {
    const { store } = this.#options;
    const { origin, parts, accepted_at } = await this.get(userId, digest);
    if (accepted_at === null) {
      if (parts.length === 0) throw new PlatformError("BehaviourForgotten");
      const kept = shorten(parts, maxKeptText);
      await store.accept({ userId, digest, origin, parts: kept, acceptedAt: Date.now() }, maxAcceptances);
    }
    return this.get(userId, digest);
  }

  #present(found: readonly BehaviourRow[], accepted: AcceptanceRow | undefined): Behaviour {
    const { digest, origin, parts } = (found[0] ?? accepted)!;
    return {
      ...{ digest, origin, parts },
      accepted_at: accepted ? isoTime(accepted.acceptedAt) : null,
      sandbox_ids: found.map(({ holder }) => holder).filter((holder) => !holder.startsWith("snap-")),
      link: `${this.#options.publicUrl()}/behaviours/${digest}`,
    };
  }
}

/** Parts with at most `max` characters together; the digest covers the rest too. */
function shorten(parts: readonly BehaviourPart[], max: number): BehaviourPart[] {
  let room = max;
  const shown = parts.slice(0, maxParts).map((part) => {
    const text = part.text.slice(0, room);
    room -= text.length;
    const missing = part.text.length - text.length;
    return missing > 0
      ? { ...part, text: `${text}\n[${missing} more characters, which the digest covers]` }
      : part;
  });
  const left = parts.length - shown.length;
  if (left > 0)
    shown.push({ kind: "file", source: "…", text: `${left} more parts, which the digest covers` });
  return shown;
}
