import type { ErrorTexts } from "./texts.ts";

type Id = { id: string };
type Name = { name: string };
type Max = { max: number };

const archivePath = "GET /api/v1/conversation/{id}/events/search";

export const conversationsErrors = {
  ConversationUnknown: ["ConversationNotFound", "Conversation not found"],
  AlreadyRunning: [
    "ConversationRunning",
    "Conversation already running. Wait for completion or pause first.",
  ],
  EventUnknown: ["EventNotFound", "Event not found"],
  TooManyEventsForArchive: [
    "ConversationTooLarge",
    ({ max }: Max) =>
      `The conversation has more than ${max} events: read them page by page with ${archivePath}.`,
  ],

  NotUuid: ["InvalidParameter", ({ field }: { field: string }) => `${field} is not a UUID.`],
  ConversationIdTaken: [
    "ConversationExists",
    ({ id }: Id) => `A conversation with the id ${id} already exists.`,
  ],
  ParentUnknown: ["ConversationNotFound", "The parent conversation does not exist."],
  ParentNotInSandbox: [
    "InvalidParameter",
    ({ id }: Id) => `parent_conversation_id: there is no conversation ${id} in this sandbox.`,
  ],
  StartSandboxUnknown: ["SandboxNotFound", ({ id }: Id) => `The sandbox ${id} does not exist.`],
  StartProfileUnknown: [
    "ProfileNotFound",
    "The agent profile does not exist: choose another agent_profile_id.",
  ],
  AgentSourceAmbiguous: [
    "InvalidParameter",
    "Set exactly one of agent, agent_settings and agent_profile_id.",
  ],
  AgentKindUnsupported: [
    "InvalidParameter",
    ({ kind, supported }: { kind: string; supported: string }) =>
      `Agents of kind ${kind} are not supported: use ${supported}.`,
  ],
  AgentModelMissing: [
    "InvalidParameter",
    "agent_settings.llm.model is missing and the settings have no model: set one of them.",
  ],
  AgentDocumentTooLarge: [
    "InvalidParameter",
    ({ limit }: { limit: string }) =>
      `The agent, tools and hooks of a conversation exceed ${limit} in total.`,
  ],
  NetworkOfExistingSandbox: [
    "InvalidParameter",
    "The network of an existing sandbox cannot be changed: omit network or sandbox_id.",
  ],
  TaskAndMessage: ["InvalidParameter", "Set either suggested_task or initial_message, not both."],
  DeletedDuringStart: [
    "ConversationNotFound",
    ({ what }: { what: string }) => `${what} was deleted while it was being started.`,
  ],
  SetupScriptUnrunnable: [
    "SandboxFailed",
    ({ reason }: { reason: string }) => `The setup script cannot run: ${reason}.`,
  ],

  BranchWithoutRepository: [
    "InvalidParameter",
    "A conversation without a repository has no branch or provider: clear selected_branch and git_provider too.",
  ],
  LlmProfileUnknown: ["ProfileNotFound", ({ name }: Name) => `The settings have no LLM profile ${name}.`],
  ChildrenInOtherSandboxes: [
    "BadRequest",
    "The conversation has sub-conversations in other sandboxes: delete them first.",
  ],
  GoalObjectiveEmpty: ["BadRequest", "The objective of a goal must not be empty."],
  NoGoalToResume: ["BadRequest", "There is no stopped goal to resume."],
  GoalActive: ["GoalRunning", "A goal is active: stop it first."],
  PendingQueueFull: [
    "TooManyMessages",
    ({ max }: Max) => `${max} messages already wait for this conversation: wait until it is ready.`,
  ],
  StartTaskUnknown: ["StartTaskNotFound", "Start task not found"],
  StartHasFailed: ["StartFailed", "The start of this conversation failed: start another one."],

  RunHere: [
    "ConversationExternal",
    "This server runs the conversation itself and does not accept reports about it.",
  ],
  TooManyReportedConversations: [
    "ConversationExternal",
    ({ max }: Max) => `The sandbox has ${max} conversations, the maximum that is kept: delete one.`,
  ],
  TooManyReportedEvents: [
    "ConversationExternal",
    ({ max }: Max) => `The conversation has ${max} events, the maximum that is kept.`,
  ],
  ReportsTooLarge: [
    "ConversationExternal",
    "The sandbox has reported more data than is kept; further reports are rejected.",
  ],
  ReportedEventTooLong: [
    "InvalidParameter",
    ({ id, max }: Id & Max) => `The event ${id} is longer than ${max} characters.`,
  ],
  ReportedEventInvalid: [
    "InvalidParameter",
    ({ id, kind, problem }: Id & { kind: string; problem: string }) =>
      `The event ${id} is not a valid ${kind}: it ${problem}.`,
  ],

  ProviderNotCloneable: [
    "InvalidParameter",
    ({ provider }: { provider: string }) => `Repositories of ${provider} cannot be cloned by this server.`,
  ],
  RepositoryNameInvalid: [
    "InvalidParameter",
    ({ field, shape }: { field: string; shape: string }) =>
      `${field} must be a name such as ${shape}, of letters, digits and . _ - ~.`,
  ],
  BranchNameInvalid: [
    "InvalidParameter",
    "selected_branch must be the name of a branch or tag, such as main or feature/one.",
  ],
  PluginPathInvalid: ["InvalidParameter", "repo_path of a plugin must be a folder inside its repository."],
  PluginSourceInvalid: [
    "InvalidParameter",
    "source of a plugin must be `github:owner/repo`, `owner/repo` or an https URL without credentials.",
  ],
  CloneWithoutGit: [
    "RepositoryFailed",
    ({ name }: Name) =>
      `${name} cannot be cloned: the sandbox's image has no git; choose an image that has it.`,
  ],
  CloneFolderFailed: [
    "RepositoryFailed",
    ({ name, target, reason }: Name & { target: string; reason: string }) =>
      `${name} cannot be cloned: the parent folder of ${target} cannot be created (${reason}).`,
  ],
  CloneTargetTaken: [
    "RepositoryFailed",
    ({ name, target }: Name & { target: string }) =>
      `${name} cannot be cloned: ${target} already contains something else; start in another sandbox.`,
  ],
  CloneTimeout: [
    "RepositoryFailed",
    ({ name, seconds, full }: Name & { seconds: number; full: boolean }) =>
      `Cloning ${name} took longer than ${seconds} s${full ? "; a shallow clone (git_full_clone off in the settings) takes less" : ""}.`,
  ],
  CloneHostBlocked: [
    "RepositoryFailed",
    ({ name, host }: Name & { host: string }) =>
      `${name} cannot be cloned: the network policy of the sandbox does not allow ${host}.`,
  ],
  CloneAccessDenied: [
    "RepositoryFailed",
    ({ name, host, provider, hasToken }: Name & { host: string; provider: string; hasToken: boolean }) =>
      `${name} cannot be read at ${host}: it does not exist, or ${hasToken ? `the stored ${provider} token does not allow it` : `it is private and needs a ${provider} token in the settings`}.`,
  ],
  CloneFailed: [
    "RepositoryFailed",
    ({ name, reason }: Name & { reason: string }) => `${name} could not be cloned: ${reason}.`,
  ],
  CheckoutFailed: [
    "RepositoryFailed",
    ({ name, branch, reason }: Name & { branch: string | null; reason: string }) =>
      `The branch ${branch} of ${name} cannot be checked out: ${reason}.`,
  ],
  BranchUnknown: [
    "RepositoryFailed",
    ({ name, branch }: Name & { branch: string | null }) =>
      `${name} has no branch or tag ${branch}: choose another one.`,
  ],
  WorktreeFailed: [
    "GitFailed",
    ({ reason }: { reason: string }) => `The worktree could not be created: ${reason}`,
  ],
  HooksFileInvalid: [
    "HooksUnreadable",
    "The project's .openhands/hooks.json is not a JSON object: correct it.",
  ],

  SecretReferenceUnknown: [
    "InvalidParameter",
    ({ name }: Name) => `The secret ${name} refers to a secret that does not exist.`,
  ],
  SecretUrlInvalid: ["InvalidParameter", ({ name }: Name) => `The URL of the secret ${name} is not valid.`],
  SecretUrlFailed: [
    "OutboundFailed",
    ({ name, status }: Name & { status: number }) => `The URL of the secret ${name} answered ${status}.`,
  ],
  SecretUrlEmpty: ["OutboundFailed", "Its URL returned an empty body."],

  RunInSandbox: [
    "ConversationExternal",
    ({ id }: Id) => `An agent server inside the sandbox runs the conversation ${id}: here it is read-only.`,
  ],
  ConversationSandboxGone: ["ConversationArchived", "The conversation is archived: its sandbox was deleted."],
  MessageTooLong: [
    "InvalidParameter",
    ({ max }: Max) => `A message has at most ${max} characters, images included.`,
  ],
  NotAtRest: ["ConversationRunning", "The conversation is running: pause or interrupt it first."],
  PausedDuringCall: ["SandboxFailed", "The sandbox is paused."],
  WorkingDirFailed: [
    "SandboxFailed",
    ({ dir, reason }: { dir: string; reason: string }) =>
      `The working folder ${dir} could not be created: ${reason}`,
  ],
  TooManyQuestions: ["TooManyRequests", "Too many questions wait for an answer: try again later."],
  NoMessageForTitle: ["BadRequest", "There is no user message to generate a title from."],
  SummaryInterrupted: ["ModelFailed", "The summary was interrupted."],
  HistoryTooShort: ["InvalidParameter", "The history is too short for a summary."],
  HistoryRefused: [
    "ModelFailed",
    ({ reason }: { reason: string }) =>
      `The model does not accept this conversation, and it could not be summarised: ${reason}`,
  ],
  HistoryTooLong: [
    "ContextWindowExceeded",
    ({ reason }: { reason: string }) =>
      `The conversation is too long for its model and could not be summarised: ${reason}`,
  ],
} as const satisfies ErrorTexts;
