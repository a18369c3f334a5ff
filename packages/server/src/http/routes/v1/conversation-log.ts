import { LogWindow } from "@sandpiper/wire";
import { Type } from "typebox";
import { cutTexts } from "../../server/cut-texts.ts";
import { sendJson } from "../../server/json-text.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireConversation } from "../account/conversation-access.ts";

const maxEvents = 500;
const maxChars = 2 ** 24;

/**
 * Windows of a conversation's log by number, for clients that show a long conversation at any
 * place (docs/clients/event-delivery.md); an addition to the contract.
 */
export function conversationLogRoutes(
  app: App,
  { conversations, events }: Pick<HttpServices, "conversations" | "events">,
): void {
  app.get(
    "/api/v1/app-conversations/:conversation_id/log",
    makeRoute(["events"])("Read events by their number, with long texts cut", {
      description:
        "Events have numbers from 1 without gaps, and never change. A window of long events has fewer items than `limit`: continue after its last number. Read a cut event whole by its id.",
      params: Type.Object({ conversation_id: Type.String() }),
      querystring: Type.Object({
        first: Type.Optional(
          Type.Integer({
            minimum: 1,
            maximum: Number.MAX_SAFE_INTEGER,
            description: "number of the first event; by default the newest events",
          }),
        ),
        limit: Type.Integer({ minimum: 1, maximum: maxEvents, default: 100 }),
        max_chars: Type.Integer({
          minimum: 64,
          maximum: maxChars,
          default: 4_000,
          description: "longer texts in an event are cut in the middle, and longer images are left out",
        }),
      }),
      response: { 200: LogWindow },
    }),
    async ({ principal, params, query }, reply) => {
      const { id } = await requireConversation(conversations, principal, params.conversation_id);
      const { items, events: all, lastSeq } = await events.window(id, query);
      const texts = items.map(({ number, seq, json }) => {
        const event = cutEvent(json, query.max_chars);
        return `{"number":${number},"seq":${seq},"cut":${event !== json},"event":${event}}`;
      });
      return sendJson(reply, `{"items":[${texts.join(",")}],"events":${all},"last_seq":${lastSeq}}`);
    },
  );
}

/** Returns the same text when nothing is too long. */
function cutEvent(json: string, limit: number): string {
  if (json.length <= limit) return json;
  const cut = JSON.stringify(cutTexts(JSON.parse(json), limit));
  return cut.length < json.length ? cut : json;
}
