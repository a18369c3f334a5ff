import type { SettingsUpdate, SettingsView } from "@sandpiper/wire";
import type { ModelConfig } from "../models/model.ts";
import type { SettingsStore } from "../store/store.ts";
import type { Settings } from "./api.ts";
import { mergeSettings, type SettingsDocument, viewSettings } from "./settings-document.ts";

/** Steps of one run where the user set no limit (app-server.md section 5, conversation_settings). */
const defaultMaxIterations = 500;

const nothingStored: SettingsDocument = Object.freeze({});

/** Settings over a store of encrypted documents. What is derived from a document lives as long as the document does. */
export class StoredSettings implements Settings {
  readonly #store: SettingsStore;
  readonly #views = new WeakMap<SettingsDocument, { view: SettingsView; json: string }>();
  /** The last update of each user that has one under way. */
  readonly #updates = new Map<string, Promise<void>>();

  constructor(store: SettingsStore) {
    this.#store = store;
  }

  view(userId: string): SettingsView {
    return this.#derived(userId).view;
  }

  viewJson(userId: string): string {
    return this.#derived(userId).json;
  }

  async update(userId: string, change: SettingsUpdate): Promise<void> {
    const before = this.#updates.get(userId) ?? Promise.resolve();
    const own = before.catch(() => {}).then(() => this.#store.put(userId, mergeSettings(this.#document(userId), change)));
    this.#updates.set(userId, own);
    try {
      await own;
    } finally {
      if (this.#updates.get(userId) === own) this.#updates.delete(userId);
    }
  }

  model(userId: string): Partial<ModelConfig> {
    const { llm_model, llm_api_key, llm_base_url } = this.#document(userId);
    return {
      ...(llm_model !== undefined && { model: llm_model }),
      ...(llm_api_key !== undefined && { apiKey: llm_api_key }),
      ...(llm_base_url !== undefined && { baseUrl: llm_base_url }),
    };
  }

  profileModel(): Partial<ModelConfig> | undefined {
    return undefined;
  }

  agent(userId: string): { maxIterations: number; maxBudgetPerTask: number | null } {
    const { max_iterations, max_budget_per_task } = this.#document(userId);
    return { maxIterations: max_iterations ?? defaultMaxIterations, maxBudgetPerTask: max_budget_per_task ?? null };
  }

  #document(userId: string): SettingsDocument {
    return (this.#store.get(userId) as SettingsDocument | undefined) ?? nothingStored;
  }

  #derived(userId: string): { view: SettingsView; json: string } {
    const document = this.#document(userId);
    let derived = this.#views.get(document);
    if (!derived) {
      const json = JSON.stringify(viewSettings(document));
      // Everybody gets the same object, so nobody may change it.
      derived = { view: JSON.parse(json, (_key, value) => Object.freeze(value)), json };
      this.#views.set(document, derived);
    }
    return derived;
  }
}
