import {
  AskAgentRequest,
  AskAgentResponse,
  GenerateTitleRequest,
  GenerateTitleResponse,
  GoalRequest,
  Success,
} from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";

const ConversationPath = Type.Object({ conversation_id: Type.String() });

/**
 * Questions, summaries and goals of a conversation, concurrent to its runs (agent-server.md section
 * 3).
 */
export function agentSideCallRoutes(
  app: App,
  { conversations, encryptedValues }: Pick<HttpServices, "conversations" | "encryptedValues">,
): void {
  const base = "/api/conversations/:conversation_id";
  const params = ConversationPath;
  const route = makeRoute(["agent server"], { access: "agent", failures: [400, 409, 410, 429, 502, 504] });

  app.post(
    `${base}/ask_agent`,
    route("Ask the agent a question that does not enter the conversation", {
      params,
      body: AskAgentRequest,
      response: { 200: AskAgentResponse },
    }),
    async (request) => {
      const { id } = await requireConversation(
        conversations,
        request.principal,
        request.params.conversation_id,
      );
      return { response: await conversations.sideCalls.ask(id, request.body.question) };
    },
  );
  app.post(
    `${base}/generate_title`,
    route("Generate a title from the user's first message, without storing it", {
      params,
      body: GenerateTitleRequest,
      response: { 200: GenerateTitleResponse },
    }),
    async ({ principal, params, body }) => {
      const { id, userId } = await requireConversation(conversations, principal, params.conversation_id);
      const llm = body.llm ? encryptedValues.decryptAll(userId, body.llm) : undefined;
      return { title: await conversations.sideCalls.title(id, { max: body.max_length ?? 50, llm }) };
    },
  );
  app.post(
    `${base}/condense`,
    route("Condense the history for the model; the events stay", { params, response: { 200: Success } }),
    async (request) => {
      await conversations.sideCalls.condense(
        (await requireConversation(conversations, request.principal, request.params.conversation_id)).id,
      );
      return { success: true };
    },
  );
  app.post(
    `${base}/goal`,
    route("Run and judge the agent until a goal is reached", {
      params,
      body: GoalRequest,
      response: { 200: Success },
    }),
    async (request) => {
      const { id } = await requireConversation(
        conversations,
        request.principal,
        request.params.conversation_id,
      );
      const { objective, max_iterations = 10 } = request.body;
      await conversations.goals.start(id, objective, max_iterations);
      return { success: true };
    },
  );
  const verbs = {
    stop: "Stop judging the goal; the run continues",
    resume: "Resume the stopped goal",
  } as const;
  for (const verb of ["stop", "resume"] as const) {
    app.post(
      `${base}/goal/${verb}`,
      route(verbs[verb], { params, response: { 200: Success } }),
      async (request) => {
        await conversations.goals[verb](
          (await requireConversation(conversations, request.principal, request.params.conversation_id)).id,
        );
        return { success: true };
      },
    );
  }
}
