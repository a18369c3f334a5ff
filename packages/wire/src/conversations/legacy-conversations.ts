import { type Static, Type } from "typebox";
import { ConversationInfo } from "../agent-server/info.ts";
import { Nullable, StringEnum } from "../common/schema.ts";
import { ProviderType, SuggestedTask } from "../sandboxes/git.ts";
import { triggers } from "./conversations.ts";

/** `ARCHIVED`: its sandbox is gone. */
export const LegacyStatus = StringEnum(["STARTING", "RUNNING", "STOPPED", "ERROR", "ARCHIVED"]);

const fields = {
  conversation_id: Type.String(),
  title: Nullable(Type.String()),
  created_at: Type.String({ format: "date-time" }),
  last_updated_at: Type.String({ format: "date-time" }),
  status: LegacyStatus,
  runtime_status: Nullable(StringEnum(["STATUS$READY", "STATUS$ERROR"])),
  url: Nullable(Type.String()),
  session_api_key: Nullable(Type.String()),
  selected_repository: Nullable(Type.String()),
  selected_branch: Nullable(Type.String()),
  git_provider: Nullable(ProviderType),
  trigger: Nullable(StringEnum(triggers)),
  num_connections: Type.Integer({ minimum: 0 }),
  pr_number: Type.Array(Type.Integer()),
  conversation_version: Type.Literal("V1"),
  sub_conversation_ids: Type.Array(Type.String()),
};

/**
 * A conversation in the shape of the V0 API for the released GUI (legacy-gui.md section 4.3). The
 * id is 32 hex digits.
 */
export const LegacyConversation = Type.Object(fields);

const { id, execution_status, tags, metrics, parent_conversation_id, updated_at } =
  ConversationInfo.properties;

/**
 * The agent server's shape and the legacy shape in one object (legacy-gui.md section 7.4). Fields
 * of the conversation are absent until its start has created it.
 */
export const ConversationInfoWithLegacy = Type.Object(
  {
    ...Type.Partial(ConversationInfo).properties,
    ...{ id, execution_status, tags, metrics, parent_conversation_id, updated_at },
    ...fields,
  },
  { additionalProperties: true },
);

export const LegacyConversationPage = Type.Object({
  results: Type.Array(LegacyConversation),
  next_page_id: Nullable(Type.String()),
});

/** Body of the V0 `POST /api/conversations`. */
export const InitSessionRequest = Type.Object({
  repository: Type.Optional(Nullable(Type.String({ maxLength: 512 }))),
  git_provider: Type.Optional(Nullable(ProviderType)),
  selected_branch: Type.Optional(Nullable(Type.String({ maxLength: 512 }))),
  initial_user_msg: Type.Optional(Nullable(Type.String())),
  image_urls: Type.Optional(Nullable(Type.Array(Type.String(), { maxItems: 50 }))),
  conversation_instructions: Type.Optional(Nullable(Type.String({ maxLength: 32_768 }))),
  create_microagent: Type.Optional(
    Nullable(
      Type.Object({
        repo: Type.String({ maxLength: 512 }),
        git_provider: Type.Optional(Nullable(ProviderType)),
        title: Type.Optional(Nullable(Type.String({ maxLength: 200 }))),
      }),
    ),
  ),
  suggested_task: Type.Optional(Nullable(SuggestedTask)),
  replay_json: Type.Optional(Nullable(Type.String())),
  conversation_id: Type.Optional(Nullable(Type.String())),
  agent: Type.Optional(Type.Unknown()),
  workspace: Type.Optional(Type.Unknown()),
});

/** Answer of the V0 routes that start and stop conversations. */
export const ConversationResponse = Type.Object({
  status: Type.String(),
  conversation_id: Type.String(),
  message: Nullable(Type.String()),
  conversation_status: Nullable(LegacyStatus),
});

/** Body of the V0 `PATCH /api/conversations/{id}`. */
export const UpdateConversationRequest = Type.Object({
  title: Type.String({ minLength: 1, maxLength: 200 }),
});

export type LegacyConversation = Static<typeof LegacyConversation>;
export type LegacyStatus = Static<typeof LegacyStatus>;
export type InitSessionRequest = Static<typeof InitSessionRequest>;
