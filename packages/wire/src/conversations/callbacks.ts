import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";
import { EventKind } from "../events/event.ts";

/** The title of a conversation comes from its first message with or without this processor. */
export const SetTitleCallbackProcessor = Type.Object({ kind: Type.Literal("SetTitleCallbackProcessor") });

/** Writes the kinds of a conversation's events to the server's log. */
export const LoggingCallbackProcessor = Type.Object({ kind: Type.Literal("LoggingCallbackProcessor") });

/** Posts a conversation's events to an address; an extension of the contract. */
export const WebhookCallbackProcessor = Type.Object({
  kind: Type.Literal("WebhookCallbackProcessor"),
  url: Type.String({
    minLength: 1,
    maxLength: 2048,
    description: "http or https address that takes POST requests",
  }),
  secret: Type.Optional(
    Nullable(
      Type.String({
        minLength: 1,
        maxLength: 512,
        format: "password",
        writeOnly: true,
        description: "key of the signature",
      }),
    ),
  ),
  kinds: Type.Optional(
    Nullable(
      Type.Array(EventKind, { maxItems: 64, description: "kinds of events to send; absent or empty: all" }),
    ),
  ),
});

/** Delivery of the events of a conversation (app-server.md section 2.3, `processors`). */
export const CallbackProcessor = Type.Union([
  SetTitleCallbackProcessor,
  LoggingCallbackProcessor,
  WebhookCallbackProcessor,
]);

/** Most processors of one conversation. */
export const maxCallbacks = 10;

/** The field `processors` of a start request. */
export const CallbackProcessors = Type.Array(CallbackProcessor, { maxItems: maxCallbacks });

export const callbackStatuses = ["ACTIVE", "FAILED"] as const;

/** A callback of a conversation and the state of its delivery, without the secret. */
export const CallbackInfo = Type.Object({
  id: Type.String(),
  kind: StringEnum(["LoggingCallbackProcessor", "WebhookCallbackProcessor"]),
  url: Nullable(Type.String()),
  kinds: Nullable(Type.Array(EventKind)),
  secret_set: Type.Boolean(),
  server_wide: Type.Boolean({ description: "set by the operator; it cannot be removed" }),
  status: StringEnum(callbackStatuses),
  pending: Type.Boolean({ description: "events wait for delivery" }),
  attempts: Type.Integer({ description: "failed attempts since the last success" }),
  last_error: Nullable(Type.String()),
  next_attempt_at: Nullable(Type.String({ format: "date-time" })),
  created_at: Type.String({ format: "date-time" }),
});

export type SetTitleCallbackProcessor = Static<typeof SetTitleCallbackProcessor>;
export type LoggingCallbackProcessor = Static<typeof LoggingCallbackProcessor>;
export type WebhookCallbackProcessor = Static<typeof WebhookCallbackProcessor>;
export type CallbackProcessor = Static<typeof CallbackProcessor>;
export type CallbackInfo = Static<typeof CallbackInfo>;
