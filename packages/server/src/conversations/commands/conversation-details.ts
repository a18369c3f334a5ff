import { checkAnalyzer } from "@sandpiper/agent/risk/choose-analyzer";
import { PlatformError } from "@sandpiper/core/errors";
import type {
  AppConversationUpdateRequest,
  ConfirmationPolicy,
  PatchConversationRequest,
  ProviderType,
  SecurityAnalyzer,
} from "@sandpiper/wire";
import type { Callbacks } from "../../callbacks/api.ts";
import type {
  ConversationChange,
  ConversationConfig,
  ConversationRow,
} from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import { requireLocal } from "../lookup.ts";
import { checkBranch, checkRepositoryName } from "../project/repository.ts";
import type { Announcements } from "../run/announcements.ts";

export interface ConversationDetailsDeps {
  store: Pick<Store, "conversations">;
  callbacks: Pick<Callbacks, "notifyChange">;
  announcements: Pick<Announcements, "announceField">;
}

/**
 * Changes title, tags, repository and rules of conversations. Every method throws
 * ConversationNotFound when the conversation was deleted in the meantime.
 */
export class ConversationDetails {
  readonly #deps: ConversationDetailsDeps;

  constructor(deps: ConversationDetailsDeps) {
    this.#deps = deps;
  }

  /** See `Conversations.update`. */
  async patch(row: ConversationRow, change: AppConversationUpdateRequest): Promise<void> {
    const { store, callbacks, announcements } = this.#deps;
    await store.conversations.update(row.id, parseConversationUpdate(row, change));
    callbacks.notifyChange(row.id);
    if (change.title !== undefined) announcements.announceField(row.id, "title", change.title);
  }

  /** Changes title and tags; `tags` replaces all earlier tags. */
  async describe(row: ConversationRow, { title, tags }: PatchConversationRequest): Promise<void> {
    const { store, callbacks, announcements } = this.#deps;
    await store.conversations.update(row.id, { ...(title && { title }), ...(tags && { config: { tags } }) });
    callbacks.notifyChange(row.id);
    if (tags) announcements.announceField(row.id, "tags", tags);
    if (title) announcements.announceField(row.id, "title", title);
  }

  /** Throws ConversationExternal. */
  async setPolicy(row: ConversationRow, policy: ConfirmationPolicy): Promise<void> {
    await this.#configure(row, { confirmationPolicy: policy }, "confirmation_policy", policy);
  }

  /**
   * Sets the risk analyzer; null for none. Throws InvalidParameter when it is unknown, and
   * ConversationExternal.
   */
  async setAnalyzer(row: ConversationRow, analyzer: SecurityAnalyzer | null): Promise<void> {
    if (analyzer) checkAnalyzer(analyzer);
    await this.#configure(row, { securityAnalyzer: analyzer }, "security_analyzer", analyzer);
  }

  async #configure(
    row: ConversationRow,
    config: Partial<ConversationConfig>,
    key: string,
    value: unknown,
  ): Promise<void> {
    requireLocal(row);
    await this.#deps.store.conversations.update(row.id, { config });
    this.#deps.announcements.announceField(row.id, key, value);
  }
}

/**
 * Converts a patch request into the change of the record: absent keys stay, null clears, and
 * clearing the repository clears branch and provider (app-server.md section 2.6). Throws
 * InvalidParameter.
 */
function parseConversationUpdate(
  row: Pick<ConversationRow, "config">,
  change: AppConversationUpdateRequest,
): ConversationChange {
  const { title, selected_repository: repository, selected_branch: branch, git_provider: provider } = change;
  if (repository === null && (branch || provider)) throw new PlatformError("BranchWithoutRepository");
  const config: ConversationChange["config"] = {};
  if (change.public !== undefined) config.public = change.public;
  if (change.max_budget_per_task !== undefined) config.maxBudget = change.max_budget_per_task;
  if (provider !== undefined) config.gitProvider = provider;
  if (typeof repository === "string") {
    const { gitProvider = row.config.gitProvider } = config;
    checkRepositoryName(repository, gitProvider as ProviderType | null);
    config.selectedRepository = repository;
  }
  if (branch !== undefined) config.selectedBranch = branch ? checkBranch(branch) : null;
  if (repository === null)
    Object.assign(config, { selectedRepository: null, selectedBranch: null, gitProvider: null });
  return { ...(title !== undefined && { title }), config };
}
