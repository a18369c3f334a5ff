import type { ConversationConfig } from "./conversation-store.ts";

/** The configuration of a conversation that nothing was asked for. */
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
