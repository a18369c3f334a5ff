import { boundedPage, maxPageLength } from "@sandpiper/core/paging";
import { yieldingIterate } from "@sandpiper/core/scheduling/yielding";
import {
  ConversationInfo,
  ConversationInfoPage,
  ExecutionStatus,
  Nullable,
  StringEnum,
} from "@sandpiper/wire";
import { Type } from "typebox";
import type { ConversationFilter, ConversationRow } from "../../../store/conversation-store.ts";
import { InvalidInput } from "../../server/invalid-input.ts";
import { maxListLength, sendJson, toArrayJson, toPageJson } from "../../server/json-text.ts";
import { makeRoute } from "../../server/make-route.ts";
import { Id, pageKeys, requireId } from "../../server/params.ts";
import type { Principal } from "../../server/principal.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { visibleConversation } from "../account/conversation-access.ts";
import { makePageId, parsePageId } from "./conversation-page-id.ts";

const status = Type.Optional(ExecutionStatus);
const SearchQuery = Type.Object({
  ...pageKeys,
  status,
  sort_order: StringEnum(["CREATED_AT", "UPDATED_AT", "CREATED_AT_DESC", "UPDATED_AT_DESC"], {
    default: "CREATED_AT_DESC",
  }),
  include_skills: Type.Boolean({ default: false }),
});

type ConversationListDeps = Pick<HttpServices, "conversations" | "longReads">;

const maxIds = 99;

/**
 * Lists of conversations in the agent server's shape (agent-server.md section 3): the session key's
 * sandbox, or all of the user's.
 */
export function agentConversationListRoutes(app: App, services: ConversationListDeps): void {
  const { conversations } = services;
  const route = makeRoute(["agent server"], { access: "agent" });
  const base = "/api/conversations";
  const filterOf = (
    { userId, sandboxId }: Principal,
    query: Pick<ConversationFilter, "status">,
  ): ConversationFilter => ({
    userId,
    ...(sandboxId !== undefined && { sandboxId }),
    ...(query.status !== undefined && { status: query.status }),
  });

  app.get(
    `${base}/search`,
    route("List conversations", { querystring: SearchQuery, response: { 200: ConversationInfoPage } }),
    async ({ principal, query }, reply) => {
      const { limit, sort_order: sort } = query;
      const from = await parsePageId(query.page_id, sort, (id) =>
        visibleConversation(conversations, principal, id),
      );
      const found = await conversations.reads.rows(filterOf(principal, query), { limit, sort, from });
      const skills = query.include_skills;
      const makeText = async (row: ConversationRow) =>
        JSON.stringify(await conversations.reads.info(row, { skills }));
      const all = await collect(services, principal, found.items, makeText, maxPageLength);
      const { items, nextPageId } = boundedPage(all, ({ length }) => length, { limit });
      const isLast = (nextPageId ?? found.nextPageId) === null;
      return sendJson(
        reply,
        toPageJson({ items, nextPageId: isLast ? null : makePageId(found.items[items.length - 1]!, sort) }),
      );
    },
  );
  app.get(
    `${base}/count`,
    route("Count conversations", { querystring: Type.Object({ status }), response: { 200: Type.Integer() } }),
    ({ principal, query }) => conversations.reads.count(filterOf(principal, query)),
  );
  app.get(
    base,
    {
      constraints: { view: "agent" },
      ...route(
        "Read conversations by id; null for unknown ones",
        {
          querystring: Type.Object({ ids: Type.Array(Id) }),
          response: { 200: Type.Array(Nullable(ConversationInfo)) },
        },
        { failures: [413] },
      ),
    },
    async ({ principal, query }, reply) => {
      return sendJson(reply, await readConversationBatch(services, principal, query.ids));
    },
  );
}

/**
 * Makes the texts of items up to `maxLength` characters, yielding to other work. Lists of one user
 * are built one at a time, because they may have many megabytes.
 */
function collect<Item, Text extends string | null>(
  { longReads }: ConversationListDeps,
  { userId }: Principal,
  items: readonly Item[],
  makeText: (item: Item) => Promise<Text>,
  maxLength: number,
): Promise<Text[]> {
  return longReads.run(`conversations of ${userId}`, async () => {
    const made: Text[] = [];
    let length = 0;
    for await (const item of yieldingIterate(items)) {
      const text = await makeText(item);
      made.push(text);
      length += text?.length ?? 0;
      if (made.length > 1 && length > maxLength) break;
    }
    return made;
  });
}

/**
 * The JSON of a batch of conversations, with null for those the caller cannot see. Throws
 * InvalidInput, AnswerTooLarge.
 */
export async function readConversationBatch(
  services: ConversationListDeps,
  principal: Principal,
  ids: readonly string[],
): Promise<string> {
  const { conversations } = services;
  if (ids.length > maxIds)
    throw new InvalidInput([
      { loc: ["query", "ids"], msg: `List should have at most ${maxIds} items`, type: "too_long" },
    ]);
  const wanted = ids.map((id) => requireId(id, "query", "ids"));
  const makeText = async (id: string) => {
    const row = await visibleConversation(conversations, principal, id);
    return row ? JSON.stringify(await conversations.reads.info(row)) : null;
  };
  return toArrayJson(await collect(services, principal, wanted, makeText, maxListLength));
}
