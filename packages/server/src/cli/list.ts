import { connect } from "./connect.ts";
import { describeStatus, listConversations, shortId } from "./conversations.ts";
import { inertJson, inertLine } from "./inert.ts";
import { formatTable, formatTime } from "./table.ts";

export interface ListOptions {
  /** How many conversations to show; 0: all. */
  limit: number;
  json?: boolean;
}

/** `sandpiper ls`: one conversation a line, the newest first. */
export async function list({ limit, json }: ListOptions): Promise<void> {
  const { client, close } = await connect();
  try {
    const rows: string[][] = [];
    for await (const one of listConversations(client)) {
      if (json) process.stdout.write(`${inertJson(one)}\n`);
      rows.push([
        shortId(one.id),
        describeStatus(one),
        formatTime(one.updated_at),
        `$${(one.metrics?.accumulated_cost ?? 0).toFixed(4)}`,
        inertLine(one.title ?? ""),
      ]);
      if (rows.length === limit) break;
    }
    if (json) return;
    if (rows.length === 0)
      process.stdout.write('There are no conversations: start one with sandpiper run "<task>".\n');
    else process.stdout.write(formatTable([["ID", "STATUS", "LAST CHANGE", "COST", "TITLE"], ...rows]));
  } finally {
    await close();
  }
}
