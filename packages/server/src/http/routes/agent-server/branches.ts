import {
  ConversationInfo,
  ForkConversationRequest,
  NavigateRequest,
  parseId,
  StartChildRequest,
  StartedChild,
} from "@sandpiper/wire";
import type { FastifyReply } from "fastify";
import { Type } from "typebox";
import type { FilesOutcome } from "../../../conversations/api.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });
const SkillsQuery = Type.Object({ include_skills: Type.Optional(Type.Boolean({ default: false })) });

/**
 * Reports what happened to the files: `restored; snapshot=…` or `unchanged`. An addition to the
 * reference.
 */
export const filesHeader = "x-sandpiper-files";

/**
 * The event tree of a conversation (agent-server.md section 3): forks, and moves of HEAD; and
 * conversations below it.
 */
export function agentBranchRoutes(app: App, { conversations }: Pick<HttpServices, "conversations">): void {
  const base = "/api/conversations/:conversation_id";
  const route = makeRoute(["agent server"], { access: "agent", failures: [409, 410, 503] });

  app.post(
    `${base}/fork`,
    route("Fork a conversation at one of its events, with the files of that time if a snapshot has them", {
      params: ConversationPath,
      querystring: SkillsQuery,
      body: ForkConversationRequest,
      response: { 201: ConversationInfo },
    }),
    async (request, reply) => {
      const { id } = await requireConversation(
        conversations,
        request.principal,
        request.params.conversation_id,
      );
      const { row, ...files } = await conversations.branches.fork(id, request.body);
      setFilesHeader(reply, files);
      return reply
        .code(201)
        .send(await conversations.reads.info(row, { skills: request.query.include_skills === true }));
    },
  );
  app.post(
    `${base}/children`,
    route(
      "Start a conversation below this one, with its agent and secrets, that works on a task",
      { params: ConversationPath, body: StartChildRequest, response: { 201: StartedChild } },
      { longBody: true, failures: [409, 410, 502, 503] },
    ),
    async ({ principal, params, body }, reply) => {
      const parent = await requireConversation(conversations, principal, params.conversation_id);
      const { row, isolation } = await conversations.branches.startChild(parent.id, body);
      const { execution_status: status, title, workspace } = await conversations.reads.info(row);
      return reply.code(201).send({
        conversation_id: row.id,
        parent_conversation_id: parent.id,
        status,
        title,
        url: null,
        workspace: workspace.working_dir,
        isolation,
      });
    },
  );
  app.post(
    `${base}/navigate`,
    route(
      "Continue from an event, or from the start, with the files of that time if a snapshot has them; all branches stay",
      {
        params: ConversationPath,
        querystring: SkillsQuery,
        body: NavigateRequest,
        response: { 200: ConversationInfo },
      },
    ),
    async (request, reply) => {
      const { principal, params, body, query } = request;
      const { id } = await requireConversation(conversations, principal, params.conversation_id);
      const { event_id: eventId } = body;
      setFilesHeader(
        reply,
        await conversations.branches.navigate(id, eventId === null ? null : (parseId(eventId) ?? eventId)),
      );
      return conversations.reads.info(await requireConversation(conversations, principal, id), {
        skills: query.include_skills === true,
      });
    },
  );
}

function setFilesHeader(reply: FastifyReply, { restored }: FilesOutcome): void {
  reply.header(filesHeader, restored === undefined ? "unchanged" : `restored; snapshot=${restored}`);
}
