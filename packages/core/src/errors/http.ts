import type { ErrorTexts } from "./texts.ts";

export const httpErrors = {
  KeyRequired: ["Unauthorized", "Unauthorized"],
  KeyReadOnly: ["ReadOnlyKey", "This key is read-only."],
  KeyReadOnlyOnSocket: ["ReadOnlyKey", "This key is read-only: the socket only follows."],
  KeyReadOnlyForPreview: ["ReadOnlyKey", "This key is read-only: it does not open previews."],
  LoginFromOtherSite: [
    "CrossOrigin",
    "The login counts only for pages of this server: send a key from other sites.",
  ],
  RequestRateExceeded: [
    "TooManyRequests",
    ({ caller, perSecond }: { caller: string; perSecond: number }) =>
      `${caller} may send ${perSecond} requests per second: wait and try again.`,
  ],
  TooManyStreams: ["TooManyRequests", "Too many sockets and streams are open: close others first."],
  ServerClosing: ["SandboxFailed", "The server is shutting down."],
  SandboxUnknown: ["SandboxNotFound", "Sandbox not found"],

  MediaTypeNotJson: ["UnsupportedMediaType", "Unsupported media type: send application/json"],
  MediaTypeNotMultipart: [
    "UnsupportedMediaType",
    "Unsupported media type: send multipart/form-data with a boundary",
  ],
  MultipartInvalid: [
    "BadRequest",
    ({ reason }: { reason: string }) => `The multipart body cannot be read: ${reason}.`,
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
