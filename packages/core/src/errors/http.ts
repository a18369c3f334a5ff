import type { ErrorTexts } from "./texts.ts";

export const httpErrors = {
  KeyRequired: ["Unauthorized", "Unauthorized"],
  KeyReadOnly: ["ReadOnlyKey", "This key is read-only."],
  KeyReadOnlyOnSocket: ["ReadOnlyKey", "This key is read-only: the socket only follows."],
  KeyReadOnlyForSecrets: ["ReadOnlyKey", "This key is read-only: it may not read secrets."],
  KeyInvalid: ["Unauthorized", "This key is unknown, revoked or expired."],
  TooManyWrongKeys: ["TooManyRequests", "Too many wrong keys: wait and try again."],
  ApiKeyUnknown: ["KeyNotFound", "Key not found"],
  KeyExpiryInPast: ["InvalidParameter", "expires_at is in the past."],
  KeyExpiryTooLate: [
    "InvalidParameter",
    ({ limit }: { limit: string }) => `A new key may not expire after the key that creates it: ${limit}.`,
  ],
  SecretsNeedSessionKey: [
    "Unauthorized",
    "Plain secrets need the session key of a running sandbox in X-Session-API-Key.",
  ],
  KeyReadOnlyForPreview: ["ReadOnlyKey", "This key is read-only: it does not open previews."],
  LoginFromOtherSite: [
    "CrossOrigin",
    "The login counts only for pages of this server: send a key from other sites.",
  ],
  LoginNotFromOwnPage: ["CrossOrigin", "Log in and out on this server's own page."],
  RequestRateExceeded: [
    "TooManyRequests",
    ({ caller, perSecond }: { caller: string; perSecond: number }) =>
      `${caller} may send ${perSecond} requests per second: wait and try again.`,
  ],
  TooManyStreams: ["TooManyRequests", "Too many sockets and streams are open: close others first."],
  ServerClosing: ["SandboxFailed", "The server is shutting down."],
  ProxyHostForeign: [
    "InvalidParameter",
    ({ own }: { own: string }) => `host must be this server, ${own}: requests are not sent to others.`,
  ],
  ProxyPathInvalid: [
    "InvalidParameter",
    "path must be below /api/conversations/ or /api/git/; read a trajectory page by page.",
  ],
  SandboxUnknown: ["SandboxNotFound", "Sandbox not found"],
  SandboxNotNamed: [
    "BadRequest",
    "Name the sandbox: send its session key as X-Session-API-Key, or sandbox_id in the query.",
  ],
  SandboxKeyForeign: ["SandboxForeign", "This key belongs to another sandbox"],
  SandboxOfOtherUser: ["SandboxForeign", "The sandbox belongs to another user."],
  AppConversationUnknown: ["ConversationNotFound", "unknown_app_conversation"],
  DeletedConversationUnknown: ["BadRequest", "The conversation does not exist."],
  ConversationIdInvalid: ["InvalidParameter", "conversation_id is not a UUID."],
  ConversationSandboxMissing: ["SandboxNotFound", "The sandbox of this conversation was deleted."],
  ConversationSandboxFailed: [
    "SandboxInError",
    ({ id, detail }: { id: string; detail: string }) => `The sandbox ${id} has failed${detail}`,
  ],
  ConversationSandboxNotRunning: [
    "SandboxNotRunning",
    ({ id, status }: { id: string; status: string }) =>
      `The sandbox is not running (its status is ${status}): resume it with POST /api/v1/sandboxes/${id}/resume and try again.`,
  ],
  HooksNeedSandbox: ["SandboxNotRunning", "The sandbox is not running: resume it to read its hooks."],
  V0StartUnsupported: [
    "InvalidParameter",
    "Start conversations with POST /api/v1/app-conversations, or in a sandbox with POST /agent/<sandbox id>/api/conversations.",
  ],
  ReplayUnsupported: ["InvalidParameter", "Trajectories cannot be replayed: leave out replay_json."],
  AcpModelUnsupported: [
    "BadRequest",
    ({ use }: { use: string }) => `The agent of this conversation is not an ACP agent: use ${use}.`,
  ],
  OrganizationUnknown: ["OrganizationNotFound", "Organization not found"],
  SecretUnknown: ["SecretNotFound", "Secret not found"],
  SettingsMissing: ["SettingsNotFound", "Settings not found"],
  SettingsResetRemoved: ["Gone", "Reset settings functionality has been removed."],
  NothingToChange: [
    "BadRequest",
    ({ fields }: { fields: string }) => `Nothing to change: send at least one of ${fields}.`,
  ],
  ExposureInvalid: ["InvalidParameter", "X-Expose-Secrets must be encrypted or plaintext."],
  McpServerUnknown: ["McpServerNotFound", "MCP server not found"],
  SnapshotUnknown: ["SnapshotNotFound", "Snapshot not found"],
  MarketplaceMissing: ["PluginNotFound", "The settings have no marketplace."],
  MarketplaceUnknown: [
    "PluginNotFound",
    ({ name }: { name: string }) => `The settings have no marketplace ${name}.`,
  ],
  MarketplaceUnreadable: ["PluginNotFound", ({ reason }: { reason: string }) => reason],
  MarketplacePluginUnknown: [
    "PluginNotFound",
    ({ name }: { name: string }) => `The marketplaces have no plugin ${name}.`,
  ],
  RouteRemoved: ["Gone", ({ reason }: { reason: string }) => reason],
  FeatureNotOffered: ["NotOffered", ({ reason }: { reason: string }) => reason],
  UnsupportedItemMissing: ["PathNotFound", ({ what }: { what: string }) => `${what} not found`],

  SandboxFileMissing: ["FileNotFound", ({ path }: { path: string }) => `There is no ${path} in the sandbox.`],
  SandboxFileUnreadable: [
    "InvalidParameter",
    ({ path }: { path: string }) => `${path} is not a readable file, or it is too large.`,
  ],
  SandboxFileNotText: ["UnsupportedMediaType", ({ path }: { path: string }) => `${path} is not a text file.`],
  NotADirectory: ["BadRequest", ({ path }: { path: string }) => `${path} is not a directory.`],
  PathNotAbsolute: ["BadRequest", "The path must be absolute."],
  PathUnusable: ["BadRequest", ({ reason }: { reason: string }) => reason],
  PathOutsideWorkspace: ["FileNotFound", "The path is outside of the workspace."],
  WorkspaceServiceWorker: ["CrossOrigin", "Workspace files cannot be used as service workers."],
  NotAGitRepository: [
    "BadRequest",
    ({ folder }: { folder: string }) =>
      `Not a git repository: ${folder} is not in a repository, and does not contain exactly one.`,
  ],
  RefAndCommit: ["BadRequest", "Send ref or commit, not both."],
  GitSandboxUnreachable: ["GitFailed", ({ reason }: { reason: string }) => reason],
  GitRefusedInSandbox: ["GitRefused", ({ reason }: { reason: string }) => reason],
  SortNeedsQuery: ["BadRequest", "sort_order is only possible with a query."],

  ChatWithoutUserMessage: ["BadRequest", "The messages need at least one with the role user."],
  ChatMessageEmpty: ["BadRequest", "The last message of the user is empty."],
  SystemMessagesTooLong: [
    "InvalidParameter",
    ({ maxLength }: { maxLength: number }) =>
      `The system messages may have at most ${maxLength} characters in total.`,
  ],
  TooManyMessageParts: [
    "InvalidParameter",
    ({ maxParts }: { maxParts: number }) => `A message may have at most ${maxParts} parts.`,
  ],
  MessagePartUnsupported: [
    "InvalidParameter",
    ({ type }: { type: string }) => `Parts of the type '${type}' are not supported: send text and image_url.`,
  ],
  DefaultModelMissing: [
    "ModelNotFound",
    "The settings name no model: store one with POST /api/settings, or use an LLM profile that GET /v1/models lists.",
  ],
  ChatModelUnknown: [
    "ModelNotFound",
    ({ model }: { model: string }) =>
      `The model '${model}' does not exist: GET /v1/models lists the existing ones.`,
  ],
  TooManyCompletions: [
    "TooManyRequests",
    ({ limit }: { limit: number }) => `${limit} chat completions are running: wait for one of them.`,
  ],
  ChatStartFailed: ["SandboxFailed", ({ reason }: { reason: string }) => reason],
  TurnServerClosing: [
    "TurnUnfinished",
    "The server is shutting down; the agent continues after the restart.",
  ],
  TurnClientGone: ["TurnUnfinished", "The client has disconnected."],
  TurnClientTooSlow: ["TurnTimeout", "The client reads the response too slowly."],
  TurnConversationDeleted: [
    "ConversationNotFound",
    "The conversation was deleted before the agent had answered.",
  ],
  TurnTooLong: [
    "TurnTimeout",
    ({ minutes }: { minutes: number }) =>
      `The agent did not end its turn within ${minutes} minutes; it continues.`,
  ],
  TurnMessageNotSent: ["TurnFailed", "The message could not be sent."],
  TurnFailedWith: ["TurnFailed", ({ detail }: { detail: string }) => detail],
  TurnEnded: [
    "TurnFailed",
    ({ status }: { status: string }) => `The agent has ended its turn with the status ${status}.`,
  ],
  TurnNeedsConfirmation: [
    "TurnUnfinished",
    "The agent waits for a confirmation: approve or reject it in the conversation, or turn confirmation off in the settings.",
  ],
  TurnStopped: [
    "TurnUnfinished",
    ({ status }: { status: string }) =>
      `The conversation was stopped before the agent had answered: its status is ${status}.`,
  ],

  MediaTypeNotJson: ["UnsupportedMediaType", "Unsupported media type: send application/json"],
  MediaTypeNotMultipart: [
    "UnsupportedMediaType",
    "Unsupported media type: send multipart/form-data with a boundary",
  ],
  MultipartInvalid: [
    "BadRequest",
    ({ reason }: { reason: string }) => `The multipart body cannot be read: ${reason}.`,
  ],
  MediaTypeUnsupported: [
    "UnsupportedMediaType",
    ({ types }: { types: string }) => `Unsupported media type: send ${types}`,
  ],
  ListBodyTooLarge: [
    "BodyTooLarge",
    ({ maxBytes }: { maxBytes: number }) => `The body may have at most ${maxBytes} bytes.`,
  ],
  BatchTooLarge: ["AnswerTooLarge", "The requested items are too large together: request fewer at a time."],
  IdsInvalid: ["BadRequest", ({ ids }: { ids: string }) => `Invalid UUID format for ids: [${ids}]`],
  TooManyIdsRequested: [
    "TooManyIds",
    ({ maximum }: { maximum: number }) => `Too many ids requested. Maximum is ${maximum}.`,
  ],

  PreviewFromOtherSite: ["CrossOrigin", "Another page may not use your access to this preview."],
  PreviewAccessRequired: [
    "Unauthorized",
    "You have no access to this preview, or it has ended: open the preview again from its link.",
  ],
  PreviewRequestInvalid: [
    "BadRequest",
    "The request needs one Host header and a path that begins with a slash.",
  ],
  PreviewAddressInvalid: [
    "PathNotFound",
    "The address of a preview needs a port from 1 to 65535 and the id of a sandbox.",
  ],
  HostHeaderInvalid: ["BadRequest", "The Host header of the request is malformed."],
  TransferCodingUnsupported: ["BadRequest", "The only transfer coding of a request body is chunked."],
  WebSocketRequestInvalid: ["BadRequest", "A WebSocket begins with a GET request without a body."],
  ServiceWorkerInPathPreview: [
    "CrossOrigin",
    "A preview under a path cannot have a service worker: use its address with a host name.",
  ],
  TooManyPreviewConnections: [
    "TooManyConnections",
    ({ limit }: { limit: number }) => `This sandbox already has ${limit} open connections: close some.`,
  ],
  PreviewConnectTimeout: [
    "PreviewTimeout",
    ({ seconds }: { seconds: number }) =>
      `The sandbox did not become ready within ${seconds} s: try again, or look at its status.`,
  ],
  PreviewSilent: [
    "PreviewTimeout",
    ({ port, seconds }: { port: number; seconds: number }) =>
      `The app on port ${port} did not answer within ${seconds} s.`,
  ],
  PreviewProtocolFailed: [
    "PreviewFailed",
    ({ port, what }: { port: number; what: string }) => `The app on port ${port} ${what}.`,
  ],
  PreviewFailedInternally: [
    "PreviewFailed",
    ({ errorId }: { errorId: string }) =>
      `The preview failed inside the server; see ${errorId} in the server's log.`,
  ],
} as const satisfies ErrorTexts;
