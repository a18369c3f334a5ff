import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type Navigation, spansTo } from "../../src/store/branch.ts";

type Row = Record<string, any>;

/** How long a server may take until nothing is left to do, ms. */
const settleMs = 60_000;

export interface ConsistencyOptions {
  /** Sandboxes were deleted under their conversations, which stay to be read. */
  archived?: boolean;
}

/** Waits until a data folder is consistent; returns the problems that are left at the time-out. */
export async function waitUntilConsistent(
  dataDir: string,
  expected: ConsistencyOptions = {},
): Promise<string[]> {
  for (const end = Date.now() + settleMs; ; ) {
    const found = findInconsistencies(dataDir, expected);
    if (found.length === 0 || Date.now() > end) return found;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/**
 * Returns the problems in the data folder of an idle server: rows without an owner, unfinished
 * work, and files, processes and control groups without a sandbox. The server may be running.
 */
export function findInconsistencies(
  dataDir: string,
  { archived = false }: ConsistencyOptions = {},
): string[] {
  const database = new DatabaseSync(join(dataDir, "store", "sandpiper.db"), {
    readOnly: true,
    timeout: 5_000,
  });
  const rows = (sql: string) => database.prepare(sql).all() as Row[];
  try {
    const broken = [
      ...findBrokenRows(rows),
      ...findBrokenLogs(rows),
      ...findBrokenTrees(rows),
      ...findStrayResources(rows, dataDir),
    ];
    return broken.filter((text) => !(archived && text.startsWith("conversation without its sandbox")));
  } finally {
    database.close();
  }
}

/** Queries for rows with a missing or wrong reference, by the problem. */
const relations: Record<string, string> = {
  "callback without a conversation":
    "SELECT id FROM callbacks WHERE conversation_id NOT IN (SELECT id FROM conversations)",
  "secrets without their conversation": `SELECT conversation_id AS id FROM conversation_secrets s WHERE NOT EXISTS
    (SELECT 1 FROM conversations c WHERE c.id = s.conversation_id AND c.user_id = s.user_id AND c.sandbox_id = s.sandbox_id)`,
  "message that waits for nothing": "SELECT id FROM pending_messages",
  "start that did not end":
    "SELECT id || ' ' || status AS id FROM start_tasks WHERE status NOT IN ('READY', 'ERROR')",
  "start that failed without a reason":
    "SELECT id FROM start_tasks WHERE status = 'ERROR' AND coalesce(detail, '') = ''",
  "start that failed for a reason of ours":
    "SELECT id || detail AS id FROM start_tasks WHERE detail LIKE '%unexpected error%'",
  "sandbox that starts for ever": "SELECT id FROM sandboxes WHERE status = 'STARTING'",
  "sandbox that waits for a snapshot":
    "SELECT id FROM sandboxes WHERE snapshot_id IS NOT NULL AND status <> 'ERROR'",
  "conversation without its parent":
    "SELECT id FROM conversations WHERE parent_id IS NOT NULL AND parent_id NOT IN (SELECT id FROM conversations)",
  "conversation without its sandbox":
    "SELECT id FROM conversations WHERE sandbox_id NOT IN (SELECT id FROM sandboxes)",
  "conversation in somebody else's sandbox":
    "SELECT c.id FROM conversations c JOIN sandboxes s ON s.id = c.sandbox_id WHERE s.user_id <> c.user_id",
  "sandbox that was made for a conversation that is gone": `SELECT s.id FROM sandboxes s JOIN start_tasks t ON t.sandbox_id = s.id
    WHERE NOT EXISTS (SELECT 1 FROM conversations c WHERE c.sandbox_id = s.id)
    AND t.number = (SELECT min(number) FROM start_tasks o WHERE o.sandbox_id = s.id) AND t.created_at <= s.created_at`,
  "conversation without its own agent": `SELECT id FROM conversations WHERE json_extract(config, '$.ownAgent') = 1
    AND id NOT IN (SELECT conversation_id FROM conversation_agents)`,
  "agent of a conversation that has none": `SELECT conversation_id AS id FROM conversation_agents
    WHERE conversation_id NOT IN (SELECT id FROM conversations WHERE json_extract(config, '$.ownAgent') = 1)`,
  "log that was being copied": "SELECT id FROM conversations WHERE user_id = ''",
  "run that nobody ends": "SELECT id FROM conversations WHERE execution_status = 'running'",
  // The spending of sub-agents counts in their own conversations and again in their parents.
  "less counted for the day than was paid": `SELECT c.user_id AS id FROM conversations c GROUP BY c.user_id HAVING
    sum(CASE WHEN stats IS NULL THEN coalesce(json_extract(metrics, '$.accumulated_cost'), 0) ELSE
      (SELECT coalesce(sum(value ->> '$.accumulated_cost'), 0) FROM json_each(stats, '$.usage_to_metrics') WHERE key NOT LIKE 'task:%') END) > 1e-9 +
    coalesce((SELECT sum(usd) FROM spending s WHERE s.user_id = c.user_id), 0)`,
};

function findBrokenRows(rows: (sql: string) => Row[]): string[] {
  const wrong = Object.entries(relations).flatMap(([text, sql]) =>
    rows(sql).map(({ id }) => `${text}: ${id}`),
  );
  for (const row of rows("PRAGMA foreign_key_check")) wrong.push(`broken reference: ${JSON.stringify(row)}`);
  for (const { integrity_check: text } of rows("PRAGMA integrity_check")) if (text !== "ok") wrong.push(text);
  return wrong;
}

/** Logs have no gaps, and what their conversations say of them is true. */
function findBrokenLogs(rows: (sql: string) => Row[]): string[] {
  return rows(`SELECT c.id FROM conversations c LEFT JOIN events e ON e.conversation = c.number GROUP BY c.number
    HAVING c.last_seq <> count(e.key) OR c.last_listed <> count(e.listed_index)
    OR coalesce(max(e.key) - c.number * 16777216, 0) <> c.last_seq OR coalesce(max(e.listed_index), 0) <> c.last_listed`).map(
    ({ id }) => `log with gaps: ${id}`,
  );
}

/**
 * Each event follows its recorded predecessor, HEAD is at the last move or event, and forks start
 * as copies of their source.
 */
function findBrokenTrees(rows: (sql: string) => Row[]): string[] {
  const wrong: string[] = [];
  const moves = Map.groupBy(
    rows("SELECT conversation, after, target FROM navigations ORDER BY conversation, after"),
    (row) => row.conversation,
  );
  const conversations = rows(
    "SELECT number, id, head, last_listed, json_extract(config, '$.forkedFrom') AS origin FROM conversations",
  );
  const eventsOf = (number: number) =>
    rows(
      `SELECT id, json FROM events WHERE conversation = ${number} AND listed_index IS NOT NULL ORDER BY listed_index`,
    );
  const byId = new Map(conversations.map((row) => [row.id, row]));
  for (const { number, id, head, last_listed: last, origin } of conversations) {
    const events = head === null && origin === null ? [] : eventsOf(number);
    const navigations = (moves.get(number) ?? []) as Navigation[];
    if (head === null && navigations.length > 0) wrong.push(`moved without HEAD: ${id}`);
    const first = navigations[0]?.after ?? Number.POSITIVE_INFINITY;
    const targets = new Map(navigations.map(({ after, target }) => [after, target]));
    for (const [index, { id: event, json }] of events.entries()) {
      if (index < first) continue;
      const before = targets.get(index) ?? index;
      const wanted = before === 0 ? undefined : events[before - 1]?.id;
      if (JSON.parse(json).parent_id !== wanted)
        wrong.push(`event ${event} of ${id} does not follow on ${wanted}`);
    }
    if (head !== null && navigations.length > 0) {
      const at = targets.get(last) ?? last;
      const wanted = at === 0 ? "" : events[at - 1]?.id;
      if (head !== wanted) wrong.push(`HEAD of ${id} is ${head}, not ${wanted}`);
    }
    const from = origin && JSON.parse(origin);
    const source = from && byId.get(from.conversationId);
    if (!source) continue;
    const all = eventsOf(source.number);
    const index = from.eventId === null ? 0 : all.findIndex((row) => row.id === from.eventId) + 1;
    const spans = spansTo(index, (moves.get(source.number) ?? []) as Navigation[]);
    const way = spans.flatMap((span) => all.slice(span.first - 1, span.last));
    if (way.some((row, place) => row.json !== events[place]?.json))
      wrong.push(`fork ${id} does not begin as ${source.id}`);
  }
  return wrong;
}

function findStrayResources(rows: (sql: string) => Row[], dataDir: string): string[] {
  const wrong: string[] = [];
  const known = new Set(rows("SELECT id FROM sandboxes").map(({ id }) => id as string));
  const engine = join(dataDir, "sandboxes");
  const list = (path: string) => (existsSync(path) ? readdirSync(path) : []);
  const strange = (what: string, path: string) => {
    for (const name of list(path)) {
      const id = /sbx-[a-z0-9]+/.exec(name)?.[0];
      if (id && !known.has(id)) wrong.push(`${what} of no sandbox: ${join(path, name)}`);
    }
  };
  strange("record", join(engine, "sandboxes"));
  strange("commands", join(dataDir, "bash"));
  strange("decisions", join(dataDir, "network", "decisions"));
  const group = `sandpiper-${createHash("sha256").update(realpathSync(engine)).digest("hex").slice(0, 12)}`;
  strange("folder", `/dev/shm/${group}`);
  for (const folder of ["boxes", "state"]) strange("folder", `/dev/shm/${group}-run/${folder}`);
  for (const controller of list("/sys/fs/cgroup"))
    strange("control group", `/sys/fs/cgroup/${controller}/${group}`);

  const snapshots = rows("SELECT id FROM snapshots").map(({ id }) => id as string);
  const kept = list(join(engine, "snapshots")).map((name) => name.replace(/\.json$/, ""));
  for (const id of kept) if (!snapshots.includes(id)) wrong.push(`files of no snapshot: ${id}`);
  for (const id of snapshots) if (!kept.includes(id)) wrong.push(`snapshot without files: ${id}`);
  const records = ["sandboxes", "snapshots"].flatMap((folder) =>
    list(join(engine, folder)).map((name) => readFileSync(join(engine, folder, name), "utf8")),
  );
  for (const layer of list(join(engine, "layers")))
    if (!layer.startsWith("h") && !records.some((text) => text.includes(layer)))
      wrong.push(`layer of nothing: ${layer}`);
  for (const name of list(join(engine, "trash"))) wrong.push(`trash: ${name}`);
  return wrong;
}
