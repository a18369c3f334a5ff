import type { AppConversation, Event } from "@sandpiper/wire";
import { contentText } from "@sandpiper/wire";
import { readBranch } from "./branch.ts";
import { connect } from "./connect.ts";
import { describeStatus, findConversation } from "./conversations.ts";
import { inert, inertJson, inertLine } from "./inert.ts";
import { renderMarkdown } from "./markdown.ts";
import { createPaint } from "./style.ts";
import { formatTime } from "./table.ts";

/** `sandpiper show`: what a conversation is, and the agent's last answer. */
export async function show(text: string, { json }: { json?: boolean }): Promise<void> {
  const { client, close } = await connect();
  try {
    const conversation = await findConversation(client, text);
    const { events, current } = await readBranch(client, conversation.id);
    const answer = findAnswer(events.filter((event) => current.has(event.id)));
    if (json) {
      process.stdout.write(`${inertJson({ ...conversation, session_api_key: undefined, answer }, 2)}\n`);
      return;
    }
    const lines = facts(conversation).map(([name, value]) => `${name.padEnd(9)}${inertLine(value)}\n`);
    const paint = createPaint(process.stdout);
    const shown = process.stdout.isTTY
      ? renderMarkdown(answer ?? "", { paint, columns: process.stdout.columns }).join("\n")
      : inert(answer ?? "");
    process.stdout.write(`${lines.join("")}${shown ? `\n${shown}\n` : ""}`);
  } finally {
    await close();
  }
}

function facts(one: AppConversation): [string, string][] {
  const all: [string, string | null | undefined][] = [
    ["id", one.id],
    ["title", one.title],
    ["status", describeStatus(one)],
    ["model", one.llm_model],
    ["folder", one.tags["cli.folder"] ?? one.selected_repository],
    ["sandbox", `${one.sandbox_id} (${one.sandbox_status.toLowerCase()})`],
    ["cost", `$${(one.metrics?.accumulated_cost ?? 0).toFixed(4)}`],
    ["started", formatTime(one.created_at)],
    ["changed", formatTime(one.updated_at)],
  ];
  return all.filter((fact): fact is [string, string] => Boolean(fact[1]));
}

/** The last text of the agent: the message of its finish, or what it said. */
export function findAnswer(events: readonly Event[]): string | undefined {
  for (const event of events.toReversed()) {
    if (event.kind === "ActionEvent" && event.action?.kind === "FinishAction") return event.action.message;
    if (event.kind === "MessageEvent" && event.source === "agent")
      return contentText(event.llm_message.content);
  }
  return undefined;
}
