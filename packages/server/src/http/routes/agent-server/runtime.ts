import { ConversationRuntimeInfo } from "@sandpiper/wire";
import { Type } from "typebox";
import { requireSandbox } from "../../../conversations/lookup.ts";
import { presentRuntime } from "../../../conversations/views/present-runtime.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { withoutSocketTimeout } from "../../server/without-socket-timeout.ts";
import { requireConversation } from "../account/conversation-access.ts";

const params = Type.Object({ conversation_id: Type.String() });

/** The sandbox of a conversation as its runtime (agent-server-1.49.md section 2). */
export function agentRuntimeRoutes(
  app: App,
  { conversations, sandboxes }: Pick<HttpServices, "conversations" | "sandboxes">,
): void {
  const route = makeRoute(["agent server"], { access: "agent" });
  const base = "/api/conversations/:conversation_id/runtime";

  app.get(
    base,
    route("Read whether the sandbox of a conversation can work", {
      params,
      response: { 200: ConversationRuntimeInfo },
    }),
    async ({ principal, params: { conversation_id: id } }) => {
      const row = await requireConversation(conversations, principal, id);
      return presentRuntime(await sandboxes.get(row.userId, row.sandboxId));
    },
  );
  app.post(
    `${base}/reprovision`,
    route(
      "Resume the sandbox of a conversation, or restart it after an error; waits until it runs",
      { params, response: { 200: ConversationRuntimeInfo } },
      { failures: [409, 410, 422, 503] },
    ),
    async (request) => {
      const id = request.params.conversation_id;
      const row = await requireConversation(conversations, request.principal, id);
      const { id: sandboxId } = await requireSandbox(sandboxes, row);
      await withoutSocketTimeout(app, request, () => sandboxes.resume(row.userId, sandboxId));
      return presentRuntime(await sandboxes.get(row.userId, sandboxId));
    },
  );
}
