import { caller, type Json } from "../support/platform.ts";
import type { AgentLoadState, AnnouncedConversation, AnnouncedSandbox } from "./agent-announced.ts";

type Call = ReturnType<typeof caller>;

/** Returns the differences between an idle server and what it announced. */
export async function findMismatches(state: AgentLoadState): Promise<string[]> {
  const call = caller(state.target.url, state.userKey);
  const wrong: string[] = [];
  for (const box of state.sandboxes) {
    for (const one of box.conversations)
      wrong.push(...(await checkConversation(state, call, one)).map((text) => `${one.id}: ${text}`));
    if (box.deleted === undefined)
      wrong.push(...(await checkSandbox(state, box)).map((text) => `${box.id}: ${text}`));
    else if (box.deleted && (await call("GET", `/api/v1/sandboxes?id=${box.id}`)).body[0])
      wrong.push(`deleted sandbox is there: ${box.id}`);
  }
  return wrong;
}

/** Every item of a paged list. */
async function listAll(call: Call, path: string): Promise<Json[]> {
  const all: Json[] = [];
  for (let page: string | null = ""; page !== null; ) {
    const { body, status } = await call("GET", `${path}&limit=100${page && `&page_id=${page}`}`);
    if (status !== 200) throw new Error(`${path}: ${status} ${JSON.stringify(body)}`);
    all.push(...body.items);
    page = body.next_page_id;
  }
  return all;
}

async function checkConversation(
  state: AgentLoadState,
  call: Call,
  one: AnnouncedConversation,
): Promise<string[]> {
  const { status, body: info } = await call("GET", `/api/conversations/${one.id}`);
  if (status === 404) {
    if (!one.created || one.deleted !== undefined) return [];
    return [`gone, of sandbox ${one.sandbox.id} ${one.sandbox.deleted}`];
  }
  if (status !== 200) return [`answers ${status}`];
  if (one.deleted) return ["deleted, and there"];
  const wrong: string[] = [];
  const events = await listAll(call, `/api/conversations/${one.id}/events/search?sort_order=TIMESTAMP`);
  const ids = events.map(({ id }) => id);
  const texts = events
    .filter(({ kind, source }) => kind === "MessageEvent" && source === "user")
    .map(({ llm_message }) => llm_message.content[0].text as string);
  const twice = texts.filter(
    (text, index) => texts.indexOf(text) !== index && !text.startsWith("Go on with"),
  );
  if (twice.length > 0) wrong.push(`messages that came twice: ${twice}`);
  // Where the sandbox is gone nothing is delivered any more.
  if (one.first && !texts.includes(one.first) && one.sandbox.deleted === undefined)
    wrong.push(`made without its first message, announced: ${one.created}`);
  for (const said of one.sent.values()) {
    const found = texts.filter((text) => said.includes(text));
    if (JSON.stringify(found) !== JSON.stringify(said)) wrong.push(`said ${said}, stored ${found}`);
  }
  wrong.push(...checkFields(one, info), ...checkGoals(one, info, texts));
  const open = new Set(
    events.filter(({ kind }) => kind === "ActionEvent").map((event) => event.tool_call_id),
  );
  for (const { kind, tool_call_id } of events) if (kind !== "ActionEvent") open.delete(tool_call_id);
  if (open.size > 0 && info.execution_status === "finished" && !one.moved && !one.forkOf)
    wrong.push("actions without a result");
  if (["error", "stuck"].includes(info.execution_status) && one.sandbox.deleted === undefined)
    wrong.push(`ended as ${info.execution_status}: ${JSON.stringify(events.at(-1)).slice(0, 400)}`);
  const got = new Set(state.reported.get(one.id));
  const until = Date.now() + 20_000;
  while (ids.some((id) => !got.has(id)) && Date.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    for (const id of state.reported.get(one.id) ?? []) got.add(id);
  }
  const wanted = new Set(ids);
  const received = [...got].filter((id) => wanted.has(id));
  if (JSON.stringify(received) !== JSON.stringify(ids))
    wrong.push(`the webhook got ${received.length} of ${ids.length} events, or not in order`);
  // Followers reconnect a last time.
  for (const { follower, prefix } of one.followers) {
    if (one.sandbox.deleted !== undefined) continue;
    const { ended } = follower.follow({ url: `${state.target.url}${prefix}`, key: one.sandbox.key });
    const late = Date.now() + 15_000;
    while (follower.ids.length < ids.length && Date.now() < late)
      await new Promise((resolve) => setTimeout(resolve, 10));
    follower.end();
    await ended;
    if (JSON.stringify(follower.ids) !== JSON.stringify(ids)) {
      const at = ids.findIndex((id, index) => follower.ids[index] !== id);
      wrong.push(
        `a follower (${follower.way}) has ${follower.ids.length} events of ${ids.length}; they differ from ${at}: ${follower.ids[at]} / ${ids[at]}`,
      );
    }
  }
  return wrong;
}

function checkFields({ fields, secrets, deleted }: AnnouncedConversation, info: Json): string[] {
  if (deleted !== undefined) return [];
  const wrong: string[] = [];
  const now = {
    title: info.title,
    tags: info.tags,
    policy: info.confirmation_policy.kind,
    model: info.agent?.llm?.model,
  };
  for (const name of ["title", "tags", "policy", "model"] as const) {
    const may = fields[name].possible.map((value): string | undefined => JSON.stringify(value));
    if (may.length > 0 && !may.includes(undefined) && !may.includes(JSON.stringify(now[name])))
      wrong.push(`${name} is ${JSON.stringify(now[name])}, not ${may}`);
  }
  for (const name of secrets)
    if (!(name in info.secret_registry.secret_sources)) wrong.push(`secret is gone: ${name}`);
  return wrong;
}

function checkGoals(one: AnnouncedConversation, info: Json, texts: string[]): string[] {
  const wrong: string[] = [];
  const { goal } = info.agent_state;
  for (const [objective, { announced }] of one.goals) {
    const begun = texts.filter(
      (text) => text.startsWith("Reach") && text.includes(`\n${objective}\n`),
    ).length;
    // A stop or another goal may precede the message of an unannounced goal.
    if (begun > 1 || (announced && begun === 0)) wrong.push(`${objective} was begun ${begun} times`);
  }
  const again = texts.filter((text) => text.startsWith("The goal is not reached")).length;
  const rounds = [...one.goals.values()].reduce((sum, { rounds: most }) => sum + most - 1, 0);
  if (again > rounds && !one.forkOf) wrong.push(`${again} rounds of goals, ${rounds} allowed`);
  const status = info.execution_status as string;
  if (goal?.status === "running" && !["waiting_for_confirmation", "idle"].includes(status))
    wrong.push(`a goal is pursued in a conversation that is ${status}`);
  if (goal?.status === "running" && one.goalStopped) wrong.push("a goal was stopped, and is pursued");
  return wrong;
}

async function checkSandbox(state: AgentLoadState, box: AnnouncedSandbox): Promise<string[]> {
  const wrong: string[] = [];
  const call = caller(`${state.target.url}/agent/${box.id}`, box.key);
  const events = await listAll(call, "/api/bash/bash_events/search?sort_order=TIMESTAMP");
  const commands = new Map<string, Json[]>();
  for (const event of events) if (event.kind === "BashCommand") commands.set(event.id, []);
  for (const event of events) if (event.kind === "BashOutput") commands.get(event.command_id)?.push(event);
  for (const [id, outputs] of commands) {
    const ends = outputs.filter(({ exit_code }) => exit_code !== null);
    const inOrder = outputs.every(({ order }, index) => order === index);
    if (ends.length !== 1 || outputs.at(-1) !== ends[0] || !inOrder)
      wrong.push(`command ${id} has ${outputs.length} outputs, of which ${ends.length} are last`);
  }
  for (const [id, printed] of box.commands) {
    if (!commands.has(id)) wrong.push(`command is gone: ${id}`);
    const stdout = commands
      .get(id)
      ?.map((event) => event.stdout ?? "")
      .join("");
    if (printed !== undefined && stdout !== printed)
      wrong.push(`command ${id} printed ${stdout}, not ${printed}`);
  }
  for (const [path, text] of box.files) {
    const url = `${state.target.url}/api/file/download?path=${path}`;
    const answer = await fetch(url, { headers: { "x-session-api-key": box.key } });
    if ((await answer.text()) !== text) wrong.push(`file is not as it was sent: ${path} ${answer.status}`);
  }
  const list = "cd /proc && for p in [0-9]*; do tr '\\0' ' ' <$p/cmdline && echo; done 2>/dev/null";
  const { stdout } = (await call("POST", "/api/bash/execute_bash_command", { command: list })).body;
  const left = (stdout ?? "")
    .split("\n")
    .filter((line: string) => /sleep|echo worked|echo begun|bash -l?i/.test(line) && !line.includes("/proc"));
  if (left.length > 0) wrong.push(`processes are left: ${left.join("; ").slice(0, 600)}`);
  return wrong;
}

/** The clients' view of every conversation, to compare it after a restart. */
export async function readConversations(state: AgentLoadState): Promise<Map<string, string>> {
  const call = caller(state.target.url, state.userKey);
  const all = new Map<string, string>();
  for (const { id } of state.sandboxes.flatMap(({ conversations }) => conversations)) {
    const { status, body } = await call("GET", `/api/conversations/${id}`);
    all.set(id, JSON.stringify([status, body]).replaceAll(state.target.url, ""));
  }
  return all;
}
