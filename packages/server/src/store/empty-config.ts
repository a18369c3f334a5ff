import type { ConversationConfig } from "./conversation-store.ts";

/** The default configuration of a conversation. */
export function emptyConfig(workingDir: string): ConversationConfig {
  return {
    llmModel: null,
    selectedRepository: null,
    selectedBranch: null,
    gitProvider: null,
    trigger: null,
    prNumber: [],
    public: null,
    tags: {},
    agentType: "default",
    systemMessageSuffix: null,
    workingDir,
    maxIterations: 500,
  };
}
