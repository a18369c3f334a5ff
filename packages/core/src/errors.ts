/**
 * The one catalogue of errors that callers may see. A route turns an entry into its family's shape; nothing else chooses status codes.
 * Messages are one sentence that says what is wrong and, where there is something to do, what. They never carry a secret.
 */
export class PlatformError extends Error {
  /** Stable identifier, for tests and clients. */
  readonly code: ErrorCode;
  /** HTTP status. */
  readonly status: number;
  /** Seconds until it is worth another try, for the header `Retry-After`. */
  readonly retryAfter: number | undefined;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions & { retryAfter?: number }) {
    super(message, options);
    this.retryAfter = options?.retryAfter;
    this.name = code;
    this.code = code;
    this.status = catalogue[code];
  }
}

const catalogue = {
  Unauthorized: 401,
  ReadOnlyKey: 403,
  TooManyRequests: 429,
  KeyNotFound: 404,
  OrganizationNotFound: 404,
  KeyExists: 409,
  TooManyKeys: 409,
  BadRequest: 400,
  InvalidParameter: 422,
  TooManyIds: 400,
  ConversationNotFound: 404,
  EventNotFound: 404,
  SandboxNotFound: 404,
  SandboxSpecNotFound: 404,
  StartTaskNotFound: 404,
  StartFailed: 409,
  TooManyMessages: 429,
  MessageDelivered: 409,
  ConversationArchived: 410,
  SandboxInError: 503,
  GitRefused: 400,
  GitFailed: 502,
  ProfileNotFound: 404,
  PluginNotFound: 404,
  Gone: 410,
  HooksUnreadable: 422,
  ConversationTooLarge: 413,
  AnswerTooLarge: 413,
  ConversationExists: 409,
  ConversationRunning: 409,
  GoalRunning: 409,
  BudgetReached: 429,
  TurnUnfinished: 409,
  TurnFailed: 502,
  TurnTimeout: 504,
  SandboxNotRunning: 409,
  SandboxForeign: 403,
  SandboxFailed: 503,
  BrowserUnavailable: 503,
  SandboxSpecUnusable: 422,
  SnapshotNotFound: 404,
  FileNotFound: 404,
  FileForbidden: 403,
  NotAFile: 422,
  RepositoryFailed: 422,
  PortUnreachable: 502,
  CrossOrigin: 403,
  TooManyConnections: 503,
  PreviewFailed: 502,
  PreviewTimeout: 504,
  ModelNotConfigured: 400,
  ModelNotFound: 404,
  ModelFailed: 502,
  ContextWindowExceeded: 502,
  BodyTooLarge: 413,
  UnsupportedMediaType: 415,
  PathNotFound: 404,
  StorageFull: 507,
  StorageBusy: 503,
  OutboundRefused: 422,
  OutboundFailed: 502,
  SecretNotFound: 404,
  SecretExists: 400,
  TooManySecrets: 409,
  CallbackNotFound: 404,
  TooManyCallbacks: 409,
  ConversationExternal: 409,
  GitTokenRequired: 401,
  ProviderTokenInvalid: 401,
  GitTokenTooWeak: 403,
  RepositoryNotFound: 404,
  GitUnsupported: 400,
  GitProviderBusy: 429,
  GitProviderFailed: 502,
  SettingsNotFound: 404,
  McpServerNotFound: 404,
  McpServerExists: 409,
  McpFailed: 502,
  NotOffered: 400,
  ProfileExists: 409,
  TooManyProfiles: 409,
  ConfigInvalid: 500,
} as const;

export type ErrorCode = keyof typeof catalogue;

/** The text of anything thrown, for logs and events. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
