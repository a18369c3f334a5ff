import { PlatformError } from "@sandpiper/core/errors";
import type { AppConversationUpdateRequest, ProviderType } from "@sandpiper/wire";
import type { ConversationChange, ConversationRow } from "../../store/conversation-store.ts";
import { checkBranch, checkRepositoryName } from "../project/repository.ts";

/**
 * What a change of a conversation means for its record (app-server.md section 2.6): only keys that are there count, null clears, and without a repository
 * there is neither branch nor provider. Throws InvalidParameter.
 */
export function parsePatch(
  row: Pick<ConversationRow, "config">,
  change: AppConversationUpdateRequest,
): ConversationChange {
  const { title, selected_repository: repository, selected_branch: branch, git_provider: provider } = change;
  if (repository === null && (branch || provider))
    throw invalid(
      "Without a repository there is no branch and no provider: clear selected_branch and git_provider too.",
    );
  const config: ConversationChange["config"] = {};
  if (change.public !== undefined) config.public = change.public;
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

function invalid(message: string): PlatformError {
  return new PlatformError("InvalidParameter", message);
}
