import type { IncomingHttpHeaders } from "node:http";
import { parseTraceContext, type TraceContext } from "@sandpiper/core/outbound/trace-context";
import { ConversationInfo, StartConversationRequest } from "@sandpiper/wire";
import { Type } from "typebox";
import { InvalidInput } from "../../server/invalid-input.ts";
import { parseJson } from "../../server/json.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { withoutSocketTimeout } from "../../server/without-socket-timeout.ts";
import { requireAgentSandbox } from "./agent-sandbox.ts";

/**
 * `POST /api/conversations` of the agent server (agent-server.md section 3): 201, or 200 if this
 * sandbox already has a conversation of that id.
 */
export function agentCreateRoutes(
  app: App,
  {
    conversations,
    sandboxes,
    encryptedValues,
  }: Pick<HttpServices, "conversations" | "sandboxes" | "encryptedValues">,
): void {
  app.post(
    "/api/conversations",
    {
      constraints: { view: "agent" },
      config: { access: "agent", longBody: true, failures: [404, 409, 502, 503] },
      schema: {
        tags: ["agent server"],
        summary: "Create a conversation in the sandbox",
        headers: TraceHeaders,
        body: StartConversationRequest,
        response: { 200: ConversationInfo, 201: ConversationInfo },
      },
    },
    async (request, reply) => {
      checkMetadata(request.headers);
      const { userId, id: sandboxId } = await requireAgentSandbox(sandboxes, request, undefined);
      const wanted = request.body.secrets_encrypted
        ? encryptedValues.decryptAll(userId, request.body)
        : request.body;
      const { row, created } = await withoutSocketTimeout(app, request, () =>
        conversations.starts.create({ userId, sandboxId }, wanted, findTrace(request)),
      );
      return reply.code(created ? 201 : 200).send(await conversations.reads.info(row));
    },
  );
}

const metadataHeader = "x-openhands-observability-metadata";
const parentHeader = "x-openhands-observability-parent-span-context";

const TraceHeaders = Type.Object({
  traceparent: Type.Optional(
    Type.String({
      description: "W3C Trace Context: goes along to the model, the user's MCP servers and callbacks",
    }),
  ),
  tracestate: Type.Optional(Type.String({ description: "goes along with a valid traceparent" })),
  [parentHeader]: Type.Optional(Type.String({ description: "a traceparent, if the body has none" })),
});

/**
 * The trace of a new conversation: of the body, else of the reference's header
 * (agent-server-1.58.md section 3.1), else of the standard's. Invalid ones count as absent.
 */
function findTrace({
  headers,
  body,
}: {
  headers: IncomingHttpHeaders;
  body: StartConversationRequest;
}): TraceContext | undefined {
  const { traceparent, tracestate, [parentHeader]: parent } = headers;
  const given = [body.observability_parent_span_context, parent, traceparent].map((text) =>
    parseTraceContext(text?.toString(), tracestate?.toString()),
  );
  return given.find((trace) => trace !== undefined);
}

/**
 * Clients since 1.52 describe their traces in headers. This server ignores the descriptions, but it
 * refuses metadata that is no JSON object (agent-server-1.58.md section 3.1). Throws InvalidInput.
 */
function checkMetadata({ [metadataHeader]: text }: IncomingHttpHeaders): void {
  if (text === undefined || text === "") return;
  try {
    const value = parseJson(String(text));
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return;
  } catch {
    // Reported below.
  }
  throw new InvalidInput([
    { loc: ["header", metadataHeader], msg: "Input should be a JSON object", type: "json_invalid" },
  ]);
}
