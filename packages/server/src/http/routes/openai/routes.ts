import { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import {
  AgentResponse,
  type AppConversationStartRequest,
  agentResponseExample,
  ChatCompletion,
  ChatCompletionRequest,
  chatCompletionExample,
  hexId,
  newId,
  OpenAiModelList,
  ResponseRequest,
  serverConversationHeader,
} from "@sandpiper/wire";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Static, type TSchema, Type } from "typebox";
import type { ConversationRow } from "../../../store/conversation-store.ts";
import { conversation, ofBody, param, type Subject } from "../../forwarding/concern.ts";
import { sendBody } from "../../server/json-text.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";
import { requireAgentSandbox } from "../agent-server/agent-sandbox.ts";
import { parseChat } from "./messages.ts";
import { listModelIds, resolveProfile } from "./models.ts";
import {
  beginResponse,
  endResponse,
  findConversation,
  makeResponseId,
  parseResponseId,
  streamEvents,
  toMessages,
} from "./responses.ts";
import { streamChunks } from "./stream.ts";
import { Turn } from "./turn.ts";

type Services = Pick<HttpServices, "conversations" | "sandboxes" | "settings">;

/** Maximum duration of a turn, ms: the default timeout of OpenAI's clients. */
const turnMs = 10 * 60_000;

/** Maximum concurrent completions per user. */
const maxWaiting = 100;

const SandboxQuery = Type.Object({ sandbox_id: Type.Optional(Type.String()) });
const Headers = Type.Object({
  [serverConversationHeader.toLowerCase()]: Type.Optional(
    Type.String({ description: "the conversation to continue; by default a new one starts" }),
  ),
});

/**
 * Offers agents as models of OpenAI's API (agent-server.md section 9). A chat completion or a
 * response is a turn of a conversation, in the session key's sandbox or, with a user's key, a new
 * one. `limitMs` bounds a turn.
 */
export function openAiRoutes(app: App, services: Services, limitMs = turnMs): void {
  const { conversations, settings } = services;
  const turnSummary = "Send a message to an agent and wait until its turn ends";
  const turnOptions = { longBody: true as const, failures: [400, 404, 409, 410, 429, 502, 503, 504] };
  const route = makeRoute(["openai"], { access: "agent", errors: "openai" });
  const places = new KeyedSemaphore([maxWaiting]);
  const turns = new Set<Turn>();
  app.addHook("preClose", async () => {
    for (const turn of turns) turn.stop(new PlatformError("TurnServerClosing"));
  });

  app.get(
    "/v1/models",
    route("List the models of chat completions", { response: { 200: OpenAiModelList } }),
    async ({ principal }, reply) => {
      const ids = await listModelIds(settings, principal.userId);
      return reply.send({
        object: "list",
        data: ids.map((id) => ({ id, object: "model", created: 0, owned_by: "openhands" })),
      });
    },
  );
  app.post(
    "/v1/chat/completions",
    route(
      turnSummary,
      {
        querystring: SandboxQuery,
        headers: Headers,
        body: ChatCompletionRequest,
        response: turnResponse("chunks", { schema: ChatCompletion, example: chatCompletionExample }),
      },
      { ...turnOptions, concerns: ofBody((_body, request) => subjectOfTurn(request)) },
    ),
    async (request, reply) => {
      const { body } = request;
      const { turn } = await startTurn(request, reply, body);
      const head = {
        id: `chatcmpl-${hexId(newId())}`,
        created: Math.floor(Date.now() / 1_000),
        model: body.model,
      };
      if (body.stream)
        return sendStream(reply, streamChunks(turn, head, body.stream_options?.include_usage === true));
      const { text, usage } = await turn.answer();
      const answer: ChatCompletion = {
        ...head,
        object: "chat.completion",
        choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }],
        usage,
      };
      return sendBody(reply, answer);
    },
  );
  app.post(
    "/v1/responses",
    route(
      turnSummary,
      {
        querystring: SandboxQuery,
        headers: Headers,
        body: ResponseRequest,
        response: turnResponse("the response", { schema: AgentResponse, example: agentResponseExample }),
      },
      { ...turnOptions, concerns: ofBody(subjectOfResponse) },
    ),
    async (request, reply) => {
      const { body } = request;
      const previous = body.previous_response_id ? findConversation(body.previous_response_id) : undefined;
      const chat = { model: body.model, messages: toMessages(body) };
      const { turn, row } = await startTurn(request, reply, chat, previous);
      const begun = beginResponse(makeResponseId(row.id), body);
      if (body.stream) return sendStream(reply, streamEvents(turn, begun));
      return sendBody(reply, endResponse(begun, await turn.answer()));
    },
  );

  /** Starts a turn in the named conversation, else in that of the header or a new one. */
  async function startTurn(request: TurnRequest, reply: FastifyReply, chat: Chat, named?: string) {
    const { principal, raw } = request;
    const leave = places.tryAcquire([principal.userId]);
    if (!leave) throw new PlatformError("TooManyCompletions", { limit: maxWaiting });
    let turn: Turn | undefined;
    const onGone = () => {
      leave();
      if (turn) turns.delete(turn);
      turn?.stop(new PlatformError("TurnClientGone"));
    };
    reply.raw.once("close", onGone);
    // The connection is silent while the agent works.
    raw.socket.setTimeout(limitMs + 60_000);
    const { row, message } = await resolveConversation(services, request, chat, named);
    reply.header(serverConversationHeader, row.id);
    // Stops clients from retrying automatically, which would repeat the agent's work.
    reply.header("x-should-retry", "false");
    turn = new Turn(conversations, row, limitMs);
    if (!reply.raw.closed) turns.add(turn);
    else turn.stop(new PlatformError("TurnClientGone"));
    await turn.start(message);
    return { turn, row };
  }
}

/** What a turn without an earlier response is about. */
function subjectOfTurn({ headers, query, principal }: FastifyRequest): Subject {
  const continued = param(headers, serverConversationHeader.toLowerCase());
  if (continued !== undefined) return { conversation: continued };
  const named = param(query, "sandbox_id");
  return named === undefined ? { start: {} } : { sandbox: principal.besideSandboxId ?? named };
}

function subjectOfResponse(body: Record<string, unknown>, request: FastifyRequest): Subject | undefined {
  const previous = param(body, "previous_response_id");
  if (previous === undefined) return subjectOfTurn(request);
  return conversation(parseResponseId(previous));
}

type Chat = Pick<ChatCompletionRequest, "model" | "messages">;
type TurnRequest = FastifyRequest<{ Querystring: Static<typeof SandboxQuery> }>;

/**
 * The conversation that a request continues or starts, and the message for it. Throws what starting
 * throws, ModelNotFound, ConversationNotFound.
 */
async function resolveConversation(
  { conversations, sandboxes, settings }: Services,
  request: TurnRequest,
  { model, messages }: Chat,
  continued: string | undefined,
) {
  const { query, principal, headers } = request;
  const { userId } = principal;
  const profile = await resolveProfile(settings, userId, model);
  const chat = parseChat(messages);
  const named = continued ?? headers[serverConversationHeader.toLowerCase()];
  if (typeof named === "string" && named !== "") {
    const row = await requireConversation(conversations, principal, named);
    if (profile !== undefined && profile !== row.config.llmProfile)
      await conversations.switchProfile(userId, row.id, profile);
    return { row, message: chat.message };
  }
  const isInSandbox = principal.sandboxId !== undefined || query.sandbox_id !== undefined;
  const row = await startConversation(conversations, userId, {
    ...(isInSandbox && { sandbox_id: (await requireAgentSandbox(sandboxes, request, query.sandbox_id)).id }),
    ...(chat.system !== "" && { system_message_suffix: await appendToSuffix(settings, userId, chat.system) }),
  });
  if (profile !== undefined) await conversations.switchProfile(userId, row.id, profile);
  return { row, message: [...chat.before, ...chat.message] };
}

/**
 * Starts a conversation and waits for its sandbox; removes it if its own sandbox fails to start.
 * Throws SandboxFailed.
 */
async function startConversation(
  conversations: Services["conversations"],
  userId: string,
  start: AppConversationStartRequest,
): Promise<ConversationRow> {
  const id = newId();
  let reason = "The conversation could not be started: the server is shutting down.";
  for await (const { status, detail } of await conversations.starts.startStream(userId, {
    ...start,
    conversation_id: id,
  })) {
    const row = status === "READY" ? await conversations.reads.get(userId, id) : undefined;
    if (row) return row;
    if (status !== "ERROR") continue;
    reason = detail ?? "The conversation could not be started.";
    if (!start.sandbox_id && (await conversations.reads.get(userId, id)))
      await conversations.remove(userId, id);
  }
  throw new PlatformError("ChatStartFailed", { reason });
}

/** Appends a text to the user's standing suffix of system prompts. */
async function appendToSuffix(settings: Services["settings"], userId: string, text: string): Promise<string> {
  const profile = await settings.agentProfiles.active(userId);
  const standing = profile?.system_message_suffix ?? (await settings.agent(userId)).systemMessageSuffix;
  return standing ? `${standing}\n\n${text}` : text;
}

function sendStream(reply: FastifyReply, chunks: AsyncIterable<string>): FastifyReply {
  reply.header("x-accel-buffering", "no").type("text/event-stream");
  return reply.send(Readable.from(chunks, { objectMode: false }));
}

/** The answer of a route that sends a message and waits until the agent's turn ends. */
function turnResponse<Answer extends TSchema>(streams: string, json: { schema: Answer; example: unknown }) {
  return {
    200: {
      description: `The agent's answer; with \`stream\` server-sent events of ${streams}`,
      content: { "application/json": json, "text/event-stream": { schema: {} } },
    },
  };
}
