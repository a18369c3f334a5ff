import type { ErrorTexts } from "./texts.ts";

type Name = { name: string };
type Max = { max: number };
const archivePath = "GET /api/v1/conversation/{id}/events/search";

export const conversationsErrors = {
  ConversationNotFound: {
    ConversationUnknown: "Conversation not found",
    ParentUnknown: "The parent conversation does not exist.",
    DeletedDuringStart: "{what} was deleted while it was being started.",
  },
  ConversationRunning: {
    AlreadyRunning: "Conversation already running. Wait for completion or pause first.",
    NotAtRest: "The conversation is running: pause or interrupt it first.",
  },
  EventNotFound: {
    EventUnknown: "Event not found",
  },
  ConversationTooLarge: {
    TooManyEventsForArchive: ({ max }: Max) =>
      `The conversation has more than ${max} events: read them page by page with ${archivePath}.`,
  },
  InvalidParameter: {
    NotUuid: "{field} is not a UUID.",
    ParentNotInSandbox: "parent_conversation_id: there is no conversation {id} in this sandbox.",
    AgentProfileUnresolved: "The agent profile '{name}' names what does not exist: {missing}",
    RuntimeUnsupported: "This server only runs local conversations",
    WorktreeRefMissing: "worktree_options: the base ref needs a ref.",
    WorktreeRefUnknown: "worktree_options: the repository has no branch, tag or commit {ref}.",
    WorktreeBranchInvalid: "worktree_options: {branch} is not a valid name of a branch.",
    PermissionModeUnknown:
      "agent_definitions: the sub-agent {name} has the permission_mode {mode}, which is none of {modes}.",
    AgentSourceAmbiguous: "Set exactly one of agent, agent_settings and agent_profile_id.",
    AgentKindUnsupported: "Agents of kind {kind} are not supported: use {supported}.",
    AgentModelMissing: "agent_settings.llm.model is missing and the settings have no model: set one of them.",
    AgentDocumentTooLarge: "The agent, tools and hooks of a conversation exceed {limit} in total.",
    NetworkOfExistingSandbox:
      "The network of an existing sandbox cannot be changed: omit network or sandbox_id.",
    TaskAndMessage: "Set either suggested_task or initial_message, not both.",
    BranchWithoutRepository:
      "A conversation without a repository has no branch or provider: clear selected_branch and git_provider too.",
    ReportedEventTooLong: "The event {id} is longer than {max} characters.",
    ReportedEventInvalid: "The event {id} is not a valid {kind}: it {problem}.",
    ProviderNotCloneable: "Repositories of {provider} cannot be cloned by this server.",
    RepositoryNameInvalid: "{field} must be a name such as {shape}, of letters, digits and . _ - ~.",
    BranchNameInvalid: "selected_branch must be the name of a branch or tag, such as main or feature/one.",
    PluginPathInvalid: "repo_path of a plugin must be a folder inside its repository.",
    PluginFolderMissing: "repo_path: {name} has no folder {path}.",
    PluginManifestInvalid: "The manifest of the plugin cannot be used: it is {reason}.",
    PluginSourceInvalid:
      "source of a plugin must be `github:owner/repo`, `owner/repo` or an https URL without credentials.",
    SecretReferenceUnknown: "The secret {name} refers to a secret that does not exist.",
    SecretUrlInvalid: "The URL of the secret {name} is not valid.",
    MessageTooLong: "A message has at most {max} characters, images included.",
    HistoryTooShort: "The history is too short for a summary.",
  },
  ConversationExists: {
    ConversationIdTaken: "A conversation with the id {id} already exists.",
  },
  SandboxNotFound: {
    StartSandboxUnknown: "The sandbox {id} does not exist.",
  },
  ProfileNotFound: {
    StartProfileUnknown: "The agent profile does not exist: choose another agent_profile_id.",
    LlmProfileUnknown: "The settings have no LLM profile {name}.",
  },
  SandboxFailed: {
    SetupScriptUnrunnable: "The setup script cannot run: {reason}.",
    PausedDuringCall: "The sandbox is paused.",
    WorkingDirFailed: "The working folder {dir} could not be created: {reason}",
  },
  BadRequest: {
    ChildrenInOtherSandboxes: "The conversation has sub-conversations in other sandboxes: delete them first.",
    GoalObjectiveEmpty: "The objective of a goal must not be empty.",
    NoGoalToResume: "There is no stopped goal to resume.",
    NoMessageForTitle: "There is no user message to generate a title from.",
  },
  GoalRunning: {
    GoalActive: "A goal is active: stop it first.",
  },
  TooManyMessages: {
    PendingQueueFull: "{max} messages already wait for this conversation: wait until it is ready.",
  },
  StartTaskNotFound: {
    StartTaskUnknown: "Start task not found",
  },
  StartFailed: {
    StartHasFailed: "The start of this conversation failed: start another one.",
  },
  ConversationExternal: {
    RunHere: "This server runs the conversation itself and does not accept reports about it.",
    TooManyReportedConversations:
      "The sandbox has {max} conversations, the maximum that is kept: delete one.",
    TooManyReportedEvents: "The conversation has {max} events, the maximum that is kept.",
    ReportsTooLarge: "The sandbox has reported more data than is kept; further reports are rejected.",
    RunInSandbox: "An agent server inside the sandbox runs the conversation {id}: here it is read-only.",
  },
  RepositoryFailed: {
    CloneWithoutGit: "{name} cannot be cloned: the sandbox's image has no git; choose an image that has it.",
    CloneFolderFailed: "{name} cannot be cloned: the parent folder of {target} cannot be created ({reason}).",
    CloneTargetTaken:
      "{name} cannot be cloned: {target} already contains something else; start in another sandbox.",
    CloneTimeout: ({ name, seconds, full }: Name & { seconds: number; full: boolean }) =>
      `Cloning ${name} took longer than ${seconds} s${full ? "; a shallow clone (git_full_clone off in the settings) takes less" : ""}.`,
    CloneHostBlocked: "{name} cannot be cloned: the network policy of the sandbox does not allow {host}.",
    CloneNetworkFailed: "{name} cannot be cloned: {reason}",
    CloneAccessDenied: ({
      name,
      host,
      provider,
      hasToken,
    }: Name & { host: string; provider: string; hasToken: boolean }) =>
      `${name} cannot be read at ${host}: it does not exist, or ${hasToken ? `the stored ${provider} token does not allow it` : `it is private and needs a ${provider} token in the settings`}.`,
    CloneFailed: "{name} could not be cloned: {reason}.",
    CloneTooLarge: "{name} cannot be cloned: it has more than {mib} MiB.",
    CloneWithoutRoom: ({ name, mib, full }: Name & { mib: number; full: boolean }) =>
      `${name} cannot be cloned: it takes more than the ${mib} MiB of disk that a clone may take here. Choose a sandbox spec with a larger disk, or delete sandboxes and snapshots${full ? "; a shallow clone (git_full_clone off in the settings) takes less" : ""}.`,
    CloneDiskFull: "{name} cannot be cloned: the disk of the server is full; make room on it.",
    CheckoutFailed: "The branch {branch} of {name} cannot be checked out: {reason}.",
    BranchUnknown: "{name} has no branch or tag {branch}: choose another one.",
  },
  PluginFetchFailed: {
    PluginUnfetched: ({ reason }: { reason: string }) => reason,
  },
  PluginFetchTimeout: {
    PluginFetchTooLong: "Fetching {name} took longer than {seconds} s.",
  },
  GitFailed: {
    WorktreeFailed: "The worktree could not be created: {reason}",
  },
  HooksUnreadable: {
    HooksFileInvalid: "The project's .openhands/hooks.json is {reason}: correct it.",
  },
  OutboundFailed: {
    SecretUrlFailed: "The URL of the secret {name} answered {status}.",
    SecretUrlEmpty: "Its URL returned an empty body.",
  },
  ConversationArchived: {
    ConversationSandboxGone: "The conversation is archived: its sandbox was deleted.",
  },
  TooManyRequests: {
    TooManyQuestions: "Too many questions wait for an answer: try again later.",
  },
  TurnFailed: {
    RunEndsServer:
      "The server ended {max} times in a row without a clean shutdown while this conversation was running, so the run is not continued. A new message or a run continues it.",
  },
  ModelFailed: {
    SummaryInterrupted: "The summary was interrupted.",
    HistoryRefused: "The model does not accept this conversation, and it could not be summarised: {reason}",
  },
  ContextWindowExceeded: {
    HistoryTooLong: "The conversation is too long for its model and could not be summarised: {reason}",
  },
} as const satisfies ErrorTexts;
