import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ActiveConversation, NodesState } from "./state.ts";

/** Rows of the database that explain a conversation, by the table. */
const related: Readonly<Record<string, string>> = {
  conversations:
    "SELECT id, sandbox_id, parent_id, execution_status, owner, epoch, last_seq, unclean_ends FROM conversations WHERE id = $1 OR parent_id = $1",
  sandboxes: "SELECT * FROM sandboxes WHERE id = (SELECT sandbox_id FROM conversations WHERE id = $1)",
  start_tasks: "SELECT * FROM start_tasks WHERE conversation_id = $1",
  slots:
    "SELECT * FROM slots WHERE user_id = (SELECT user_id FROM conversations WHERE id = $1) ORDER BY number",
  nodes: "SELECT * FROM nodes WHERE $1::text IS NOT NULL ORDER BY started_at",
};

/**
 * Writes what is known about a conversation with problems to a folder of its own: the problems, its
 * logs with the owner of each record, the rows of the database, the faults, and the log of the
 * nodes since the conversation began.
 */
export async function writeConversation(
  state: NodesState,
  { id, worker, begun }: ActiveConversation,
  problems: readonly string[],
): Promise<void> {
  const { cluster, folder } = state;
  const to = join(folder, id);
  await mkdir(to, { recursive: true });
  const write = (name: string, lines: readonly string[]) =>
    writeFile(join(to, name), lines.map((line) => `${line}\n`).join(""));
  await write("problems.txt", [
    `${worker.name}, from ${toTime(begun)} to ${toTime(Date.now())}`,
    ...problems,
  ]);
  for (const [one, records] of await cluster.logs.readAll(id)) {
    const owners = await cluster.logs.owners(one);
    const lines = records.map(({ json, event, listed }, index) => {
      const { at, owner, epoch } = owners[index] ?? {};
      const head = [index + 1, at?.toISOString(), `epoch ${epoch}`, owner, event.kind, event.id];
      return [...head, listed ? "listed" : "control", event.tool_call_id ?? event.key ?? "", json].join(" ");
    });
    await write(one === id ? "log.txt" : `sub-agent-${one}.txt`, lines);
  }
  const rows = [];
  for (const [table, sql] of Object.entries(related))
    for (const row of await cluster.logs.query(sql, id)) rows.push(`${table} ${JSON.stringify(row)}`);
  await write("rows.txt", rows);
  await write(
    "faults.txt",
    state.happened.map(({ at, name }) => `${toTime(at)} ${name}`),
  );
  await write("nodes.txt", cluster.linesSince(begun));
}

const toTime = (at: number) => new Date(at).toISOString();
