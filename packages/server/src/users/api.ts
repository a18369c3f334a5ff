import type { SettingsUpdate, SettingsView } from "@sandpiper/wire";
import type { ModelConfig } from "../models/model.ts";

/** Settings of users (platform.md section 2.1). */
export interface Settings {
  /** The resource as read: secrets are null, `*_set` flags tell. A user who never stored settings reads the defaults. */
  view(userId: string): SettingsView;
  /** The same, serialised; equal until the settings change. */
  viewJson(userId: string): string;
  /**
   * Merges the given fields. Null for a secret, `llm_model` or `llm_base_url` keeps what is stored; an empty text clears it
   * (app-server.md section 5, V0 POST).
   */
  update(userId: string, change: SettingsUpdate): Promise<void>;
  /** The model to call for a user, the key included; for the server's own use only. `model` is undefined when none is configured. */
  model(userId: string): Partial<ModelConfig>;
  /** Values that the agent obeys, with their defaults. */
  agent(userId: string): { maxIterations: number; maxBudgetPerTask: number | null };
}

/** API keys of users. */
export interface ApiKeys {
  /** The user of a key, or undefined. Constant time in the number of keys. */
  authenticate(key: string): { userId: string } | undefined;
  /** Makes a key and gives its text, which is not stored. */
  create(userId: string, name: string): Promise<string>;
  /** Makes sure that this exact key works (SANDPIPER_API_KEY). */
  adopt(userId: string, name: string, key: string): Promise<void>;
  list(): { id: string; userId: string; name: string; createdAt: number }[];
  remove(id: string): Promise<boolean>;
}

/** The implicit user of a self-hosted server. */
export const defaultUser = "default";
