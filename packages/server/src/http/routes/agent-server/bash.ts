import { PlatformError } from "@sandpiper/core/errors";
import type { BashQuery, CommandGroup } from "@sandpiper/sandbox/shell/commands/api";
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
import { type AgentPlace, type AgentScope, makeAgentScopes, resolveInWorkspace } from "./agent-scope.ts";

const searchKeys = {
  kind__eq: Type.Optional(StringEnum(["BashCommand", "BashOutput"])),
  command_id__eq: Type.Optional({ ...Id, description: "only this command and its output" }),
  timestamp__gte: Time,
  timestamp__lt: Time,
  order__gt: Type.Optional(Type.Integer({ description: "only output after this position" })),
  sort_order: TimestampOrder,
  ...pageKeys,
};
const SearchQuery = Type.Object(searchKeys);
const idText = "ids of the events; repeat the key for each; released clients send a JSON list in the body";
const idKeys = { ids: Type.Optional(Type.Array(Type.String(), { description: idText })) };
const eventKey = { event_id: Type.String() };
const commandKey = { command_id: Type.String({ description: "id of the command" }) };

const maxIds = 100;

/**
 * Commands in a sandbox (agent-server.md section 7), and below a conversation in its workspace,
 * with a history of their own (agent-server-1.49.md section 3).
 */
export function agentBashRoutes(
  app: App,
  services: Pick<HttpServices, "bash" | "sandboxes" | "conversations">,
): void {
  for (const scope of makeAgentScopes(services)) {
    commandRoutes(app, services, scope);
    historyRoutes(app, services, scope);
  }
}

function commandRoutes(app: App, { bash }: Pick<HttpServices, "bash">, scope: AgentScope): void {
  const base = `${scope.base}/bash`;
  const failures = [400, 404, ...scope.failures];
  const route = makeRoute(["agent server"], { access: "agent", failures });
  const running = {
    access: "agent",
    longBody: true,
    failures: [...failures, 413, 429, 503, 507],
  } as const;
  const common = { params: scope.params({}), querystring: scope.query({}) };

  app.post(
    `${base}/start_bash_command`,
    route(
      scope.summary("Start a command in the background"),
      { ...common, body: ExecuteBashRequest, response: { 200: BashCommand } },
      running,
    ),
    async (request, reply) => {
      const place = await scope.find(request);
      sendJson(reply, await bash.start(place.row, toCommand(place, request.body), toGroup(place)));
      return reply;
    },
  );
  app.post(
    `${base}/execute_bash_command`,
    route(
      scope.summary("Run a command and wait for its end"),
      {
        description: "Returns everything that the command printed, up to 16 MiB; it says what is left out.",
        ...common,
        body: ExecuteBashRequest,
        response: { 200: BashOutput },
      },
      running,
    ),
    async (request, reply) => {
      const place = await scope.find(request);
      const command = toCommand(place, request.body);
      sendJson(
        reply,
        await withoutSocketTimeout(app, request, () => bash.execute(place.row, command, toGroup(place))),
      );
      return reply;
    },
  );
  app.post(
    `${base}/bash_commands/:command_id/stop`,
    route(scope.summary("Stop a command"), {
      params: scope.params(commandKey),
      querystring: scope.query({}),
      response: { 200: Success },
    }),
    async (request) => {
      const place = await scope.find(request);
      await bash.stop(place.row.id, normalizeEventId(request.params.command_id), toGroup(place)?.id);
      return { success: true };
    },
  );
}

function historyRoutes(app: App, { bash }: Pick<HttpServices, "bash">, scope: AgentScope): void {
  const route = makeRoute(["agent server"], { access: "agent", failures: [400, 404, ...scope.failures] });
  const events = `${scope.base}/bash/bash_events`;

  app.get(
    `${events}/search`,
    route(scope.summary("List commands and their output"), {
      params: scope.params({}),
      querystring: scope.query(searchKeys),
      response: { 200: BashEventPage },
    }),
    async (request, reply) => {
      const query = toBashQuery(request.query);
      const place = await scope.find(request);
      sendJson(reply, toPageBytes(await bash.search(place.row.id, { ...query, group: toGroup(place)?.id })));
      return reply;
    },
  );
  app.get(
    events,
    route(scope.summary("Read events by id; null for unknown ones"), {
      params: scope.params({}),
      querystring: scope.query(idKeys),
      response: { 200: Type.Array(Type.Union([BashEvent, Type.Null()])) },
    }),
    async (request, reply) => {
      const place = await scope.find(request);
      const ids = [...(request.query.ids ?? []), ...(await readIdList(request))];
      checkCount(ids, maxIds);
      sendJson(
        reply,
        await toArrayJson(await bash.batch(place.row.id, ids.map(normalizeEventId), toGroup(place)?.id)),
      );
      return reply;
    },
  );
  app.get(
    `${events}/:event_id`,
    route(scope.summary("Read an event"), {
      params: scope.params(eventKey),
      querystring: scope.query({}),
      response: { 200: BashEvent },
    }),
    async (request, reply) => {
      const place = await scope.find(request);
      const ids = [normalizeEventId(request.params.event_id)];
      const [json] = await bash.batch(place.row.id, ids, toGroup(place)?.id);
      if (!json) throw new PlatformError("EventUnknown");
      sendJson(reply, json);
      return reply;
    },
  );
  app.delete(
    events,
    route(scope.summary("Delete ended commands and their output"), {
      params: scope.params({}),
      querystring: scope.query({}),
      response: { 200: BashCleared },
    }),
    async (request) => {
      const place = await scope.find(request);
      return { cleared_count: await bash.clear(place.row.id, toGroup(place)?.id) };
    },
  );
}

/** Commands of one conversation have a history of their own. */
function toGroup({ conversation }: AgentPlace): CommandGroup | undefined {
  return conversation && { id: hexId(conversation.id), folder: conversation.workspace };
}

/** Below a conversation, a command starts in the workspace. Throws InvalidParameter. */
function toCommand({ conversation }: AgentPlace, request: ExecuteBashRequest): ExecuteBashRequest {
  return conversation
    ? { ...request, cwd: resolveInWorkspace(conversation.workspace, request.cwd ?? ".") }
    : request;
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
