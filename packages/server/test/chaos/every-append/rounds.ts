import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newId } from "@sandpiper/wire";
import { startModelServer } from "../../support/model-server.ts";
import { type Json, removeSandboxes, SocketClient, until } from "../../support/platform.ts";
import { type ServerProcess, startServerProcess } from "../../support/server-process.ts";
import { settled } from "../consistency.ts";
import { judge, type Stored, storedLog } from "./judge.ts";
import { shownAtEnd, steps, worker } from "./task.ts";

/** Where a server is killed: before or after the commit of that number, or a moment after it was told of. */
export interface Death {
  when: "before" | "after" | "told";
  at: number;
}

/** How long a conversation may take to its end, ms. */
const endMs = 60_000;

/**
 * Lets a conversation do its work in a server that is killed at one commit, starts the server anew, and looks whether the conversation came to its end as if nothing had been.
 * First once without a death: `choose` gets the number of its commits and gives the deaths to try. Gives what was wrong.
 */
export async function dieAtCommits(
  choose: (commits: number) => Death[],
  tell: (text: string) => void = () => {},
): Promise<string[]> {
  const models = await startModelServer(worker(steps));
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-append-"));
  const start = (death?: Death) =>
    startServerProcess(dataDir, {
      NODE_OPTIONS: `--import=${new URL("./die-at-commit.ts", import.meta.url)}`,
      DIE_AT_COMMIT: death ? `${death.when}:${death.at}` : "",
      SANDPIPER_MAX_REQUESTS: "100000",
    });
  const wrong: string[] = [];
  let server = await start();
  try {
    await server.call("POST", "/api/settings", {
      llm_model: "openai/gpt-4o-mini",
      llm_api_key: "sk-test",
      llm_base_url: models.url,
    });
    const whole = await begin(server);
    wrong.push(...(await atEnd(server, dataDir, whole, [])));
    const commits = Number([...server.output().matchAll(/^commit (\d+)$/gm)].at(-1)?.[1]);
    tell(`the work takes ${commits} commits`);
    const deaths = choose(commits);
    await server.end("SIGTERM");
    server = await start(deaths[0]);
    for (const [round, death] of deaths.entries()) {
      if (wrong.length > 0) break;
      const name = `${death.when} commit ${death.at}`;
      const begun = await begin(server);
      if (!(await isDead(server))) throw new Error(`The server lives on: ${name}`);
      const before = storedLog(dataDir, begun.id);
      const output = server.output();
      server = await start(deaths[round + 1]);
      const found = await atEnd(server, dataDir, begun, before);
      tell(`${name}: ${before.length} records were there, ${found.length} wrong`);
      if (found.length > 0) tell(`${output}\n${server.output()}`);
      wrong.push(...found.map((text) => `${name}: ${text}`));
    }
    if (wrong.length === 0) wrong.push(...(await settled(dataDir, { archived: true })));
  } finally {
    await removeSandboxes(server.call).catch(() => {});
    await server.end("SIGTERM");
    await models.close();
    await rm(dataDir, { recursive: true, force: true });
  }
  return wrong;
}

interface Begun {
  id: string;
  /** Ids of the listed events that a follower has been told of. */
  announced: string[];
}

/** A client asks for the work and follows it; the server may die while it does. */
async function begin(server: ServerProcess): Promise<Begun> {
  const id = newId();
  const announced: string[] = [];
  const request = { conversation_id: id, initial_message: { content: [{ type: "text", text: "Do the work." }] } };
  const answer = await server.call("POST", "/api/v1/app-conversations", request).catch(() => undefined);
  if (answer && answer.status !== 200) throw new Error(JSON.stringify(answer));
  const { socket } = SocketClient.forConversation(server, id, "&resend_mode=all");
  socket.on("message", (data) => {
    const frame = JSON.parse(String(data)) as Json;
    if (!["ConversationStateUpdateEvent", "StreamingDeltaEvent"].includes(frame.kind)) announced.push(frame.id);
  });
  return { id, announced };
}

/** Waits for the end of a process. */
async function isDead({ child }: ServerProcess): Promise<boolean> {
  const end = Date.now() + endMs;
  await until(() => child.exitCode !== null || child.signalCode !== null || Date.now() > end || undefined);
  return child.signalCode === "SIGKILL";
}

/** Waits for the end of a conversation and removes its sandbox; gives what is wrong. */
async function atEnd({ call }: ServerProcess, dataDir: string, begun: Begun, before: readonly Stored[]): Promise<string[]> {
  const end = Date.now() + endMs;
  const shown = async () => (await call("GET", `/api/v1/app-conversations?ids=${begun.id}`)).body[0];
  await until(async () => {
    const status = (await shown())?.execution_status;
    return ["finished", "error", "stuck"].includes(status) || Date.now() > end || undefined;
  });
  const after = storedLog(dataDir, begun.id);
  const action = after.findLast(({ event }) => event.action?.command === shownAtEnd)?.event;
  const result = after.find(({ event }) => event.action_id === action?.id)?.event;
  const { sandbox_id: box } = await shown();
  await call("DELETE", `/api/v1/sandboxes/${box}?sandbox_id=${box}`);
  return judge({ before, after, announced: begun.announced, shown: result?.observation?.content[0]?.text ?? "" });
}
