import { type Static, Type } from "typebox";
import { idPattern } from "../common/ids.ts";
import { Nullable, StringEnum } from "../common/schema.ts";
import { SandboxStatus } from "../sandboxes/sandboxes.ts";
import { SendMessageRequest } from "./conversations.ts";

/**
 * Body of `POST /api/v1/app-conversations/{id}/send-message`: the agent runs unless `run` is false
 * (app-server.md section 2.7).
 */
export const AppSendMessageRequest = Type.Object({
  role: Type.Optional(Type.Literal("user", { default: "user" })),
  content: SendMessageRequest.properties.content,
  run: Type.Optional(Type.Boolean({ default: true })),
  /** An addition to the contract. */
  message_id: Type.Optional(
    Type.String({
      description:
        "UUID of the message's event; a message with the id of an event of the conversation is not sent again",
      "x-documented": { pattern: idPattern },
    }),
  ),
});

export const AppSendMessageResponse = Type.Object({
  success: Type.Boolean(),
  sandbox_status: SandboxStatus,
  message: Nullable(Type.String()),
});

/** Body of `POST /api/v1/conversations/{id}/pending-messages` (app-server.md section 2.8). */
export const PendingMessageRequest = Type.Object({
  role: Type.Optional(Type.Literal("user", { default: "user" })),
  content: SendMessageRequest.properties.content,
});

export const PendingMessageResponse = Type.Object({
  id: Type.String(),
  queued: Type.Boolean(),
  position: Type.Integer({ minimum: 1 }),
});

/**
 * A file that differs from the compared state; `path` is relative to the requested folder
 * (agent-server.md section 8).
 */
export const GitChange = Type.Object({
  status: StringEnum(["MOVED", "ADDED", "DELETED", "UPDATED"]),
  path: Type.String(),
});

/** A file before and after; null when it does not exist on that side. */
export const GitDiff = Type.Object({ original: Nullable(Type.String()), modified: Nullable(Type.String()) });

/** A skill that a conversation's agent has (app-server.md section 2.9). */
export const ConversationSkill = Type.Object({
  name: Type.String(),
  type: StringEnum(["repo", "knowledge", "agentskills"]),
  content: Type.String(),
  triggers: Type.Array(Type.String()),
});
export const ConversationSkills = Type.Object({ skills: Type.Array(ConversationSkill) });

export const hookEvents = [
  "pre_tool_use",
  "post_tool_use",
  "user_prompt_submit",
  "session_start",
  "session_end",
  "stop",
] as const;

/**
 * The current hooks of a conversation's project, from `.openhands/hooks.json` (app-server.md
 * section 2.9).
 */
export const ConversationHooks = Type.Object({
  hooks: Type.Array(
    Type.Object({
      event_type: StringEnum(hookEvents),
      matchers: Type.Array(
        Type.Object({
          matcher: Type.String(),
          hooks: Type.Array(
            Type.Object({
              type: StringEnum(["command", "prompt", "agent"]),
              command: Type.String(),
              timeout: Type.Integer(),
              async: Type.Boolean(),
            }),
          ),
        }),
      ),
    }),
  ),
});

export const SwitchProfileRequest = Type.Object({
  profile_name: Type.String({ minLength: 1, maxLength: 64 }),
});
export const SwitchAcpModelRequest = Type.Object({ model: Type.String({ minLength: 1, maxLength: 256 }) });

export type AppSendMessageResponse = Static<typeof AppSendMessageResponse>;
export type GitChange = Static<typeof GitChange>;
export type GitDiff = Static<typeof GitDiff>;
export type ConversationHooks = Static<typeof ConversationHooks>;
