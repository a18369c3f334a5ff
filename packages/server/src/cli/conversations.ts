import type { AppConversation, PageOf } from "@sandpiper/wire";
import type { Client } from "./client.ts";
import { CliError } from "./errors.ts";
import { inertJson, inertLine } from "./inert.ts";

/** Conversations of a page. */
const pageSize = 100;

/** Newest conversations that a shortened id may mean. */
const maxSearched = 2_000;

/** Tags with which the command line finds the conversations of a folder again. */
export const tags = { folder: "cli.folder", keep: "cli.keep", tree: "cli.tree" } as const;

/** The newest conversations first. */
export async function* listConversations(client: Client): AsyncGenerator<AppConversation> {
  for (let pageId: string | null | undefined; pageId !== null; ) {
    const query = pageId === undefined ? "" : `&page_id=${encodeURIComponent(pageId)}`;
    const page: PageOf<AppConversation> = await client.json(
      "GET",
      `/api/v1/app-conversations/search?limit=${pageSize}${query}`,
    );
    yield* page.items;
    pageId = page.next_page_id;
  }
}

/** Finds a conversation by its id or the beginning of its id. Throws CliError. */
export async function findConversation(client: Client, text: string): Promise<AppConversation> {
  const id = text.replaceAll("-", "").toLowerCase();
  if (!/^[0-9a-f]{4,32}$/.test(id))
    throw new CliError(`${inertJson(text)} is no id of a conversation: "sandpiper ls" lists the ids.`);
  if (id.length === 32) return client.conversation(id);
  const found: AppConversation[] = [];
  let searched = 0;
  for await (const conversation of listConversations(client)) {
    if (conversation.id.startsWith(id)) found.push(conversation);
    if (++searched === maxSearched) break;
  }
  if (found.length === 1) return found[0]!;
  throw new CliError(
    found.length === 0
      ? `There is no conversation ${id}: "sandpiper ls" lists the ids.`
      : `${found.length} conversations begin with ${id}: use more of the id.`,
  );
}

/** The newest conversation that the command line started for a folder or repository. */
export async function lastConversation(client: Client, folder: string): Promise<AppConversation | undefined> {
  let searched = 0;
  for await (const conversation of listConversations(client)) {
    if (conversation.tags[tags.folder] === folder) return conversation;
    if (++searched === maxSearched) break;
  }
  return undefined;
}

/** What a conversation does, in one word. */
export function describeStatus({ execution_status, sandbox_status }: AppConversation): string {
  if (sandbox_status === "MISSING") return "archived";
  // The status of a conversation is hidden while its sandbox is paused.
  const status = execution_status ?? (sandbox_status === "PAUSED" ? "paused" : "idle");
  return status === "waiting_for_confirmation" ? "waiting" : inertLine(status);
}

/** The part of an id that people read. */
export function shortId(id: string): string {
  return inertLine(id.slice(0, 8));
}
