import { PlatformError } from "@sandpiper/core/errors";
import type { BashQuery } from "@sandpiper/sandbox/shell/commands/api";
import {
  BashCleared,
  BashCommand,
  BashEvent,
  BashEventPage,
  BashOutput,
  ExecuteBashRequest,
  hexId,
  parseId,
  StringEnum,
  Success,
} from "@sandpiper/wire";
import { type Static, Type } from "typebox";
import { sendJson, toArrayJson, toPageBytes } from "../../server/json-text.ts";
import { makeRoute } from "../../server/make-route.ts";
import {
  checkCount,
  Id,
  pageKeys,
  parseEventTimeParam,
  requireId,
  Time,
  TimestampOrder,
} from "../../server/params.ts";
import { readIdList } from "../../server/read-id-list.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { withoutSocketTimeout } from "../../server/without-socket-timeout.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { requireAgentSandbox } from "./agent-sandbox.ts";

const sandboxKey = {
  sandbox_id: Type.Optional(Type.String({ description: "required without a session key" })),
};
const SandboxQuery = Type.Object(sandboxKey);
const SearchQuery = Type.Object({
  kind__eq: Type.Optional(StringEnum(["BashCommand", "BashOutput"])),
  command_id__eq: Type.Optional({ ...Id, description: "only this command and its output" }),
  timestamp__gte: Time,
  timestamp__lt: Time,
  order__gt: Type.Optional(Type.Integer({ description: "only output after this position" })),
  sort_order: TimestampOrder,
  ...pageKeys,
  ...sandboxKey,
});
const idText = "ids of the events; repeat the key for each; released clients send a JSON list in the body";
const BatchQuery = Type.Object({
  ids: Type.Optional(Type.Array(Type.String(), { description: idText })),
  ...sandboxKey,
});
const EventPath = Type.Object({ event_id: Type.String() });
const CommandKey = { command_id: Type.String({ description: "id of the command" }) };
const ConversationKey = { conversation_id: Type.String() };

const maxIds = 100;

/** Commands in a sandbox (agent-server.md section 7). */
export function agentBashRoutes(
  app: App,
  { bash, sandboxes, conversations }: Pick<HttpServices, "bash" | "sandboxes" | "conversations">,
): void {
  const route = makeRoute(["agent server"], { access: "agent", failures: [400, 404] });
  const running = { access: "agent", longBody: true, failures: [400, 404, 413, 429, 503, 507] } as const;
  const events = "/api/bash/bash_events";

  app.post(
    "/api/bash/start_bash_command",
    route(
      "Start a command in the background",
      { querystring: SandboxQuery, body: ExecuteBashRequest, response: { 200: BashCommand } },
      running,
    ),
    async (request, reply) => {
      const row = requireAgentSandbox(sandboxes, request, request.query.sandbox_id);
      sendJson(reply, await bash.start(row, request.body));
      return reply;
    },
  );
  app.post(
    "/api/bash/execute_bash_command",
    route(
      "Run a command and wait for its end",
      {
        description: "Returns everything that the command printed, up to 16 MiB; it says what is left out.",
        querystring: SandboxQuery,
        body: ExecuteBashRequest,
        response: { 200: BashOutput },
      },
      running,
    ),
    async (request, reply) => {
      const row = requireAgentSandbox(sandboxes, request, request.query.sandbox_id);
      sendJson(reply, await withoutSocketTimeout(app, request, () => bash.execute(row, request.body)));
      return reply;
    },
  );
  for (const base of ["/api/bash", "/api/conversations/:conversation_id/bash"]) {
    const isScoped = base.includes(":conversation_id");
    app.post(
      `${base}/bash_commands/:command_id/stop`,
      route(isScoped ? "Stop a command in the sandbox of a conversation" : "Stop a command", {
        params: isScoped ? Type.Object({ ...ConversationKey, ...CommandKey }) : Type.Object(CommandKey),
        querystring: SandboxQuery,
        response: { 200: Success },
      }),
      async (request) => {
        const { conversation_id: conversation, command_id: command } = request.params as Record<
          string,
          string
        >;
        const sandboxId =
          conversation === undefined
            ? requireAgentSandbox(sandboxes, request, request.query.sandbox_id).id
            : requireConversation(conversations, request.principal, conversation).sandboxId;
        await bash.stop(sandboxId, normalizeEventId(command!));
        return { success: true };
      },
    );
  }
  app.get(
    `${events}/search`,
    route("List commands and their output", { querystring: SearchQuery, response: { 200: BashEventPage } }),
    async (request, reply) => {
      const { id } = requireAgentSandbox(sandboxes, request, request.query.sandbox_id);
      sendJson(reply, toPageBytes(await bash.search(id, toBashQuery(request.query))));
      return reply;
    },
  );
  app.get(
    events,
    route("Read events by id; null for unknown ones", {
      querystring: BatchQuery,
      response: { 200: Type.Array(Type.Union([BashEvent, Type.Null()])) },
    }),
    async (request, reply) => {
      const { id } = requireAgentSandbox(sandboxes, request, request.query.sandbox_id);
      const ids = [...(request.query.ids ?? []), ...(await readIdList(request))];
      checkCount(ids, maxIds);
      sendJson(reply, toArrayJson(await bash.batch(id, ids.map(normalizeEventId))));
      return reply;
    },
  );
  app.get(
    `${events}/:event_id`,
    route("Read an event", { params: EventPath, querystring: SandboxQuery, response: { 200: BashEvent } }),
    async (request, reply) => {
      const { id } = requireAgentSandbox(sandboxes, request, request.query.sandbox_id);
      const [json] = await bash.batch(id, [normalizeEventId(request.params.event_id)]);
      if (!json) throw new PlatformError("EventUnknown");
      sendJson(reply, json);
      return reply;
    },
  );
  app.delete(
    events,
    route("Delete ended commands and their output", {
      querystring: SandboxQuery,
      response: { 200: BashCleared },
    }),
    async (request) => {
      const { id } = requireAgentSandbox(sandboxes, request, request.query.sandbox_id);
      return { cleared_count: await bash.clear(id) };
    },
  );
}

/** Normalises an id; other texts become an unknown id. */
function normalizeEventId(text: string): string {
  return hexId(parseId(text) ?? "");
}

function toBashQuery(query: Static<typeof SearchQuery>): BashQuery {
  return {
    kind: query.kind__eq,
    commandId:
      query.command_id__eq === undefined
        ? undefined
        : hexId(requireId(query.command_id__eq, "query", "command_id__eq")),
    timeGte: parseMicros(query.timestamp__gte, "timestamp__gte"),
    timeLt: parseMicros(query.timestamp__lt, "timestamp__lt"),
    orderGt: query.order__gt,
    descending: query.sort_order === "TIMESTAMP_DESC",
    pageId: query.page_id,
    limit: query.limit,
  };
}

function parseMicros(text: string | undefined, name: string): number | undefined {
  const time = parseEventTimeParam(text, name);
  return time === undefined
    ? undefined
    : Date.parse(`${time.slice(0, 23)}Z`) * 1_000 + Number(time.slice(23));
}
