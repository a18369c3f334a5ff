import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newId } from "@sandpiper/wire";
import { startAgentServer } from "../../support/agent-server.ts";
import { startMcpServer } from "../../support/mcp-server.ts";
import { startModelServer } from "../../support/model-server.ts";
import { type Json, removeSandboxes, SocketClient, until } from "../../support/platform.ts";
import { type ServerProcess, startServerProcess } from "../../support/server-process.ts";
import { settled } from "../consistency.ts";
import { judge, partsOf, type Stored, statusOf, storedLog } from "./judge.ts";
import { otherModel, shownAtEnd, type Task, worker } from "./task.ts";

/** Where a server is killed: before or after the commit of that number, or a moment after it was told of. */
export interface Death {
  when: "before" | "after" | "told";
  at: number;
}

const mcpKey = "mcp-key-of-the-test";

/** How long a conversation may take to its end, ms. */
const endMs = 120_000;

/**
 * Lets a conversation do its work in a server that is killed at one commit, starts the server anew, and looks whether the conversation came to its end as if nothing had been.
 * First once without a death: `choose` gets the number of its commits and gives the deaths to try. Gives what was wrong.
 */
export async function dieAtCommits(
  task: Task,
  choose: (commits: number) => Death[],
  tell: (text: string) => void = () => {},
): Promise<string[]> {
  const models = await startModelServer(worker(task));
  const mcp = await startMcpServer(mcpKey);
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-append-"));
  const start = (death?: Death) =>
    startServerProcess(dataDir, {
      NODE_OPTIONS: `--import=${new URL("./die-at-commit.ts", import.meta.url)}`,
      DIE_AT_COMMIT: death ? `${death.when}:${death.at}` : "",
      SANDPIPER_MAX_REQUESTS: "100000",
      SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8",
    });
  const wrong: string[] = [];
  let server = await start();
  try {
    await server.call("POST", "/api/settings", {
      llm_model: "openai/gpt-4o-mini",
      llm_api_key: "sk-test",
      llm_base_url: models.url,
      ...task.legacySettings,
    });
    const profile = { model: otherModel, api_key: "sk-test", base_url: models.url };
    await server.call("POST", "/api/v1/settings/profiles/other", { llm: profile });
    const settings = task.settings({ mcpUrl: mcp.url, modelUrl: models.url });
    const set = await server.call("POST", "/api/v1/settings", { agent_settings_diff: settings });
    if (set.status !== 200) throw new Error(JSON.stringify(set));
    const whole = await begin(server, task);
    wrong.push(...(await atEnd(server, dataDir, task, whole, new Map())));
    const summaries = storedLog(dataDir, whole.id).filter(({ event }) => event.kind === "Condensation").length;
    if ("condenser" in settings && summaries === 0) wrong.push("nothing was summarised");
    const commits = Number([...server.output().matchAll(/^commit (\d+)$/gm)].at(-1)?.[1]);
    tell(`the work takes ${commits} commits`);
    const deaths = choose(commits);
    await server.end("SIGTERM");
    server = await start(deaths[0]);
    for (const [round, death] of deaths.entries()) {
      if (wrong.length > 0) break;
      const name = `${death.when} commit ${death.at}`;
      const begun = await begin(server, task);
      const died = await isDead(server, dataDir, task, begun);
      // Where calls run side by side, some commits hold the results of several.
      if (!died && Object.keys(task.parts).length === 0 && !task.person) wrong.push(`the server lives on: ${name}`);
      if (!died) await server.end("SIGKILL");
      const before = logsOf(dataDir, begun.id);
      const output = server.output();
      server = await start(deaths[round + 1]);
      const found = await atEnd(server, dataDir, task, begun, before);
      tell(`${name}${died ? "" : " (not reached)"}: ${before.get(begun.id)!.length} records were there, ${found.length} wrong`);
      if (found.length > 0) tell(`${output}\n${server.output()}`);
      wrong.push(...found.map((text) => `${name}: ${text}`));
    }
    if (wrong.length === 0) wrong.push(...(await settled(dataDir, { archived: true })));
  } finally {
    await removeSandboxes(server.call).catch(() => {});
    await server.end("SIGTERM");
    await models.close();
    mcp.close();
    await rm(dataDir, { recursive: true, force: true });
  }
  return wrong;
}

interface Begun {
  id: string;
  /** Ids of the listed events that a follower has been told of. */
  announced: string[];
}

/** The log of a conversation and of its sub-agents, by id. */
function logsOf(dataDir: string, id: string): Map<string, Stored[]> {
  return new Map([id, ...partsOf(dataDir, id)].map((one) => [one, storedLog(dataDir, one)]));
}

/** A client asks for the work and follows it; the server may die while it does. */
async function begin(server: ServerProcess, { files = {} }: Task): Promise<Begun> {
  const id = newId();
  const announced: string[] = [];
  const request: Json = { conversation_id: id, initial_message: { content: [{ type: "text", text: `Do the work. ${id}` }] } };
  if (Object.keys(files).length > 0) {
    const box = await startAgentServer(server);
    const command = Object.entries(files)
      .map(([path, text]) => `mkdir -p "$(dirname ${path})" && cat > ${path} <<'END'\n${text}\nEND`)
      .join("\n");
    const { body } = await box.call("POST", "/api/bash/execute_bash_command", { command, cwd: "/workspace" });
    if (body.exit_code !== 0) throw new Error(JSON.stringify(body));
    request.sandbox_id = box.sandboxId;
  }
  const answer = await server.call("POST", "/api/v1/app-conversations", request).catch(() => undefined);
  if (answer && answer.status !== 200) throw new Error(JSON.stringify(answer));
  const { socket } = SocketClient.forConversation(server, id, "&resend_mode=all");
  socket.on("message", (data) => {
    const frame = JSON.parse(String(data)) as Json;
    if (!["ConversationStateUpdateEvent", "StreamingDeltaEvent"].includes(frame.kind)) announced.push(frame.id);
  });
  return { id, announced };
}

/** Waits until a process is killed, or its conversation has come to an end. */
async function isDead({ child, call }: ServerProcess, dataDir: string, { person }: Task, { id }: Begun): Promise<boolean> {
  const end = Date.now() + endMs;
  await until(async () => {
    if (child.signalCode !== null || Date.now() > end) return true;
    const log = storedLog(dataDir, id);
    const isDone = (await person?.(call, id, log).catch(() => false)) ?? true;
    return (isDone && log.at(-1)?.event.value === "finished") || undefined;
  }, 50);
  // The last commit of all may be the one.
  const last = Math.min(end, Date.now() + 3_000);
  await until(() => child.signalCode !== null || Date.now() > last || undefined);
  return child.signalCode === "SIGKILL";
}

/** Waits for the end of a conversation and removes its sandbox; gives what is wrong. */
async function atEnd(
  { call }: ServerProcess,
  dataDir: string,
  { expected, asked = {}, person }: Task,
  { id, announced }: Begun,
  before: ReadonlyMap<string, readonly Stored[]>,
): Promise<string[]> {
  const end = Date.now() + endMs;
  const shown = async () => (await call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0];
  await until(async () => {
    const log = storedLog(dataDir, id);
    const isDone = (await person?.(call, id, log)) ?? true;
    const status = statusOf(log)!;
    return (isDone && status === "finished") || ["error", "stuck"].includes(status) || Date.now() > end || undefined;
  }, 50);
  const after = logsOf(dataDir, id);
  const own = after.get(id)!;
  const action = own.findLast(({ event }) => event.action?.command === shownAtEnd)?.event;
  const result = own.find(({ event }) => event.action_id === action?.id)?.event;
  const { sandbox_id: box } = await shown();
  await call("DELETE", `/api/v1/sandboxes/${box}?sandbox_id=${box}`);
  const is: string = result?.observation?.content[0]?.text ?? "";
  return [...after].flatMap(([one, log]) => {
    const known = { before: before.get(one) ?? [], after: log };
    const asks = log.filter(({ event }) =>
      Object.keys(asked).some((words) => JSON.stringify(event.llm_message ?? "").includes(words)),
    );
    const common = { ...known, messages: 1 + asks.length, rested: asks.length > 0 || person !== undefined };
    if (one === id) return judge({ ...common, announced, shown: { is, expected } });
    return judge({ ...common, announced: [] }).map((text) => `sub-agent ${one}: ${text}`);
  });
}
