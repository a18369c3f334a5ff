import type { Tool } from "@sandpiper/agent/tools/tool";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import { LRUCache } from "lru-cache";
import type { ConversationSecretsRow, LookupSecretSource } from "../../store/conversation-parts.ts";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets } from "../../users/api.ts";
import { fetchSecret, type SecretSourceDeps } from "./secret-sources.ts";
import type { ToolSource } from "./toolset.ts";

type Row = Pick<ConversationRow, "userId" | "sandboxId">;

/** Lifetime of a value, and maximum wait of a run for new values, ms. */
const freshMs = 60_000;
const waitMs = 3_000;

export interface RefreshedSecretsDeps extends Pick<SecretSourceDeps, "outbound"> {
  store: Pick<Store, "conversationSecrets">;
  secrets: Pick<Secrets, "refreshConversation">;
  /** Lifetime of a value, ms; default one minute. */
  freshMs?: number;
}

interface State {
  /** Time of the next check, ms since the epoch. */
  next: number;
  renewal: Promise<void> | undefined;
  /** Error texts of secrets that could not be fetched, by name. */
  problems: Map<string, string>;
  /** Names of secrets whose error was reported. */
  reported: Set<string>;
}

/**
 * Fetches the secrets that clients gave as URLs (`LookupSecret`) again while agents work in their
 * sandbox. A failed fetch keeps the last value. The proxy reads values at each request, so new ones
 * apply at once.
 */
export class RefreshedSecrets implements ToolSource {
  readonly #deps: RefreshedSecretsDeps;
  readonly #states = new LRUCache<string, State>({ max: 1_000 });

  constructor(deps: RefreshedSecretsDeps) {
    this.#deps = deps;
  }

  /** Has no tools; each step triggers a check. */
  async tools(row: Row): Promise<readonly Tool[]> {
    void this.#renew(row);
    return [];
  }

  async prepare(row: Row, signal: AbortSignal): Promise<readonly string[]> {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, waitMs);
    signal.addEventListener("abort", () => resolve(), { once: true });
    await Promise.race([this.#renew(row), late]);
    clearTimeout(timer);
    const state = this.#states.get(row.sandboxId);
    if (!state) return [];
    const fresh = [...state.problems].filter(([name]) => !state.reported.has(name));
    state.reported = new Set(state.problems.keys());
    return fresh.map(
      ([name, problem]) =>
        `The secret ${name} could not be fetched again, so its last value is used: ${problem}`,
    );
  }

  leave(sandboxIds: ReadonlySet<string>): void {
    for (const id of sandboxIds) this.#states.delete(id);
  }

  close(): void {
    this.#states.clear();
  }

  async #renew({ userId, sandboxId }: Row): Promise<void> {
    const state = this.#states.get(sandboxId) ?? {
      next: 0,
      renewal: undefined,
      problems: new Map(),
      reported: new Set(),
    };
    if (!state.renewal && state.next <= Date.now()) {
      this.#states.set(sandboxId, state);
      const age = this.#deps.freshMs ?? freshMs;
      state.next = Date.now() + age;
      state.renewal = this.#deps.store.conversationSecrets
        .listBySandbox(sandboxId)
        .then((rows) => rows.filter((row) => row.userId === userId))
        .then((rows) => Promise.all(rows.map((row) => this.#renewRow(row, state, age))))
        .then(() => {})
        .catch(() => {})
        .finally(() => (state.renewal = undefined));
    }
    await state.renewal;
  }

  async #renewRow(
    { conversationId, userId, sources = {} }: ConversationSecretsRow,
    state: State,
    age: number,
  ): Promise<void> {
    const old = Object.entries(sources).filter(([, { at }]) => at + age <= Date.now());
    if (old.length === 0) return;
    const values: Record<string, { source: LookupSecretSource; value: string }> = {};
    await Promise.all(
      old.map(async ([name, source]) => {
        try {
          const value = await fetchSecret(this.#deps, name, source);
          if (value === "") throw new PlatformError("SecretUrlEmpty");
          values[name] = { source, value };
          state.problems.delete(name);
        } catch (error) {
          state.problems.set(name, errorText(error));
        }
      }),
    );
    await this.#deps.secrets.refreshConversation({ userId, conversationId }, values);
  }
}
