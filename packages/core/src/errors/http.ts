import type { ErrorTexts } from "./texts.ts";

export const httpErrors = {
  Unauthorized: {
    KeyRequired: "Unauthorized",
    KeyInvalid: "This key is unknown, revoked or expired.",
    LoginLinkEnded:
      "This login link was used before or has expired: log in with an API key, or start the server again, which prints another link.",
    SecretsNeedSessionKey: "Plain secrets need the session key of a running sandbox in X-Session-API-Key.",
    PreviewAccessRequired:
      "You have no access to this preview, or it has ended: open the preview again from its link.",
  },
  ReadOnlyKey: {
    KeyReadOnly: "This key is read-only.",
    KeyReadOnlyOnSocket: "This key is read-only: the socket only follows.",
    KeyReadOnlyForSecrets: "This key is read-only: it may not read secrets.",
    KeyReadOnlyForPreview: "This key is read-only: it does not open previews.",
  },
  TooManyRequests: {
    TooManyWrongKeys: "Too many wrong keys: wait and try again.",
    RequestRateExceeded: "{caller} may send {perSecond} requests per second: wait and try again.",
    TooManyBodies: "Too many large requests are unfinished: wait for one of them.",
    TooManyStreams: "Too many sockets and streams are open: close others first.",
    TooManyStarts: "Too many conversations of yours are being started: wait until some have started.",
    TooManyCompletions: "{limit} chat completions are running: wait for one of them.",
  },
  KeyNotFound: {
    ApiKeyUnknown: "Key not found",
  },
  InvalidParameter: {
    KeyExpiryInPast: "expires_at is in the past.",
    KeyExpiryTooLate: "A new key may not expire after the key that creates it: {limit}.",
    ProxyHostForeign: "host must be this server, {own}: requests are not sent to others.",
    ProxyPathInvalid: "path must be below /api/conversations/ or /api/git/; read a trajectory page by page.",
    ConversationIdInvalid: "conversation_id is not a UUID.",
    V0StartUnsupported:
      "Start conversations with POST /api/v1/app-conversations, or in a sandbox with POST /agent/<sandbox id>/api/conversations.",
    ReplayUnsupported: "Trajectories cannot be replayed: leave out replay_json.",
    ExposureInvalid: "X-Expose-Secrets must be encrypted or plaintext.",
    SandboxFileUnreadable: "{path} is not a readable file, or it is too large.",
    PathOutsideConversation: "path must be inside the conversation workspace",
    TrajectoryForeign: "Trajectory must belong to the selected conversation",
    SystemMessagesTooLong: "The system messages may have at most {maxLength} characters in total.",
    TooManyMessageParts: "A message may have at most {maxParts} parts.",
    MessagePartUnsupported: "Parts of the type '{type}' are not supported: send text and image_url.",
  },
  CrossOrigin: {
    LoginFromOtherSite: "The login counts only for pages of this server: send a key from other sites.",
    LoginNotFromOwnPage: "Log in and out on this server's own page.",
    WorkspaceServiceWorker: "Workspace files cannot be used as service workers.",
    PreviewFromOtherSite: "Another page may not use your access to this preview.",
    ServiceWorkerInPathPreview:
      "A preview under a path cannot have a service worker: use its address with a host name.",
  },
  SandboxFailed: {
    ServerClosing: "The server is shutting down.",
    ChatStartFailed: ({ reason }: { reason: string }) => reason,
  },
  SandboxNotFound: {
    SandboxUnknown: "Sandbox not found",
    ConversationSandboxMissing: "The sandbox of this conversation was deleted.",
  },
  BadRequest: {
    SandboxNotNamed:
      "Name the sandbox: send its session key as X-Session-API-Key, or sandbox_id in the query.",
    AcpModelUnsupported: "The agent of this conversation is not an ACP agent: use {use}.",
    NothingToChange: "Nothing to change: send at least one of {fields}.",
    NotADirectory: "{path} is not a directory.",
    PathNotAbsolute: "The path must be absolute.",
    PathUnusable: ({ reason }: { reason: string }) => reason,
    NotAGitRepository:
      "Not a git repository: {folder} is not in a repository, and does not contain exactly one.",
    RefAndCommit: "Send ref or commit, not both.",
    SortNeedsQuery: "sort_order is only possible with a query.",
    ChatWithoutUserMessage: "The messages need at least one with the role user.",
    ChatMessageEmpty: "The last message of the user is empty.",
    MultipartInvalid: "The multipart body cannot be read: {reason}.",
    IdsInvalid: "Invalid UUID format for ids: [{ids}]",
    PreviewRequestInvalid: "The request needs one Host header and a path that begins with a slash.",
    HostHeaderInvalid: "The Host header of the request is malformed.",
    TransferCodingUnsupported: "The only transfer coding of a request body is chunked.",
    WebSocketRequestInvalid: "A WebSocket begins with a GET request without a body.",
  },
  SandboxForeign: {
    SandboxKeyForeign: "This key belongs to another sandbox",
    SandboxOfOtherUser: "The sandbox belongs to another user.",
  },
  ConversationNotFound: {
    AppConversationUnknown: "unknown_app_conversation",
    TurnConversationDeleted: "The conversation was deleted before the agent had answered.",
  },
  SandboxInError: {
    ConversationSandboxFailed: "The sandbox {id} has failed{detail}",
  },
  SandboxNotRunning: {
    ConversationSandboxNotRunning:
      "The sandbox is not running (its status is {status}): resume it with POST /api/v1/sandboxes/{id}/resume and try again.",
    HooksNeedSandbox: "The sandbox is not running: resume it to read its hooks.",
  },
  OrganizationNotFound: {
    OrganizationUnknown: "Organization not found",
  },
  SecretNotFound: {
    SecretUnknown: "Secret not found",
  },
  SettingsNotFound: {
    SettingsMissing: "Settings not found",
  },
  Gone: {
    SettingsResetRemoved: "Reset settings functionality has been removed.",
    RouteRemoved: ({ reason }: { reason: string }) => reason,
  },
  McpServerNotFound: {
    McpServerUnknown: "MCP server not found",
  },
  SnapshotNotFound: {
    SnapshotUnknown: "Snapshot not found",
  },
  PluginNotFound: {
    MarketplaceMissing: "The settings have no marketplace.",
    MarketplaceUnknown: "The settings have no marketplace {name}.",
    MarketplaceUnreadable: ({ reason }: { reason: string }) => reason,
    MarketplacePluginUnknown: "The marketplaces have no plugin {name}.",
  },
  NotOffered: {
    FeatureNotOffered: ({ reason }: { reason: string }) => reason,
  },
  PathNotFound: {
    UnsupportedItemMissing: "{what} not found",
    RouteUnknown: "Not Found",
    PreviewAddressInvalid: "The address of a preview needs a port from 1 to 65535 and the id of a sandbox.",
  },
  FileNotFound: {
    SandboxFileMissing: "There is no {path} in the sandbox.",
    PathOutsideWorkspace: "The path is outside of the workspace.",
  },
  UnsupportedMediaType: {
    SandboxFileNotText: "{path} is not a text file.",
    MediaTypeNotJson: "Unsupported media type: send application/json",
    MediaTypeNotMultipart: "Unsupported media type: send multipart/form-data with a boundary",
    MediaTypeUnsupported: "Unsupported media type: send {types}",
  },
  GitFailed: {
    GitSandboxUnreachable: ({ reason }: { reason: string }) => reason,
  },
  GitRefused: {
    GitRefusedInSandbox: ({ reason }: { reason: string }) => reason,
  },
  ModelNotFound: {
    DefaultModelMissing:
      "The settings name no model: store one with POST /api/settings, or use an LLM profile that GET /v1/models lists.",
    ChatModelUnknown: "The model '{model}' does not exist: GET /v1/models lists the existing ones.",
  },
  TurnUnfinished: {
    TurnServerClosing: "The server is shutting down; the agent continues after the restart.",
    TurnClientGone: "The client has disconnected.",
    TurnNeedsConfirmation:
      "The agent waits for a confirmation: approve or reject it in the conversation, or turn confirmation off in the settings.",
    TurnStopped: "The conversation was stopped before the agent had answered: its status is {status}.",
  },
  TurnTimeout: {
    TurnClientTooSlow: "The client reads the response too slowly.",
    TurnTooLong: "The agent did not end its turn within {minutes} minutes; it continues.",
  },
  TurnFailed: {
    TurnMessageNotSent: "The message could not be sent.",
    TurnFailedWith: ({ detail }: { detail: string }) => detail,
    TurnEnded: "The agent has ended its turn with the status {status}.",
  },
  BodyTooLarge: {
    ListBodyTooLarge: "The body may have at most {maxBytes} bytes.",
  },
  AnswerTooLarge: {
    BatchTooLarge: "The requested items are too large together: request fewer at a time.",
  },
  TooManyIds: {
    TooManyIdsRequested: "Too many ids requested. Maximum is {maximum}.",
  },
  TooManyConnections: {
    TooManyPreviewConnections: "This sandbox already has {limit} open connections: close some.",
  },
  PreviewTimeout: {
    PreviewConnectTimeout:
      "The sandbox did not become ready within {seconds} s: try again, or look at its status.",
    PreviewSilent: "The app on port {port} did not answer within {seconds} s.",
  },
  PreviewFailed: {
    PreviewProtocolFailed: "The app on port {port} {what}.",
    PreviewFailedInternally: "The preview failed inside the server; see {errorId} in the server's log.",
  },
} as const satisfies ErrorTexts;
