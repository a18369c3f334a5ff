import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { parseId } from "@sandpiper/wire";
import { removeSandboxes } from "../support/platform.ts";
import { finish, terminal } from "../support/script.ts";
import { startServerProcess } from "../support/server-process.ts";
import type { AgentLoadState } from "./agent-announced.ts";
import { createSandbox, keepFollowing, runAgentLoad } from "./agent-load.ts";
import { findMismatches, readConversations } from "./agent-mismatches.ts";
import { waitUntilConsistent } from "./consistency.ts";

/** Kills a server `rounds` times under agent-server clients; returns every broken promise. */
export async function agentKillRounds(
  rounds: number,
  loadMs: () => number,
  log: (text: string) => void,
): Promise<string[]> {
  const reported = new Map<string, string[]>();
  const hooks = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    if (Math.random() < 0.1) return void response.writeHead(503, { "retry-after": "1" }).end();
    const [, id] = /\/events\/([0-9a-f]{32})$/.exec(request.url!) ?? [];
    const key = id && parseId(id);
    if (key)
      reported.set(key, [
        ...(reported.get(key) ?? []),
        ...JSON.parse(body).map((event: { id: string }) => event.id),
      ]);
    response.end();
  });
  await new Promise<void>((resolve) => hooks.listen(0, "127.0.0.1", resolve));
  let verdicts = 0;
  const models = await startModelServer(async ({ messages, system, tools }) => {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 250));
    models.requests.length = 0;
    if (system.includes("You judge whether"))
      return reply.text(JSON.stringify({ done: Math.random() < 0.3, feedback: `feedback ${++verdicts}.` }));
    const last = messages.at(-1)!;
    if (tools.length === 0 || last.text.startsWith("beside")) return reply.text("A text.");
    const command = last.role === "user" ? /^run: (.*)/m.exec(last.text)?.[1] : undefined;
    return command === undefined ? finish("Done.") : reply.toolCalls([terminal(command)]);
  });
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-chaos-"));
  const specs = [{ id: "host", network: { private: ["127.0.0.0/8"] } }];
  await writeFile(join(dataDir, "specs.json"), JSON.stringify({ specs }));
  const env = {
    SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8",
    SANDPIPER_MAX_RUNS: "20",
    SANDPIPER_LOG_LEVEL: "warn",
    SANDPIPER_MAX_REQUESTS: "100000",
    SANDPIPER_WEBHOOK_URL: `http://127.0.0.1:${(hooks.address() as AddressInfo).port}/hooks`,
    SANDPIPER_WEBHOOK_FORMAT: "agent-server",
  };
  let server = await startServerProcess(dataDir, env);
  const target = { url: server.url };
  const common = {
    target,
    userKey: server.key,
    modelUrl: models.url,
    sandboxes: [],
    unexpected: [],
    responses: new Map(),
    reported,
  };
  const state: AgentLoadState = { ...common, signal: AbortSignal.abort() };
  const wrong: string[] = [];
  let logs = "";
  const restart = async () => {
    await server.end("SIGKILL");
    logs += server.output();
    server = await startServerProcess(dataDir, env);
    target.url = server.url;
  };
  try {
    state.signal = new AbortController().signal;
    await createSandbox(state);
    for (let round = 0; round < rounds && wrong.length === 0; round++) {
      const end = new AbortController();
      state.signal = end.signal;
      const working = [runAgentLoad(state), keepFollowing(state)];
      await new Promise((resolve) => setTimeout(resolve, loadMs()));
      server.child.kill("SIGKILL");
      end.abort();
      await Promise.all(working);
      const began = Date.now();
      await restart();
      const opened = Date.now() - began;
      const found = await waitUntilConsistent(dataDir, { archived: true });
      wrong.push(...found.map((text) => `round ${round}: ${text}`), ...state.unexpected.splice(0));
      state.signal = new AbortController().signal;
      const conversations = state.sandboxes.reduce((sum, box) => sum + box.conversations.length, 0);
      log(
        `round ${round}: ${state.sandboxes.length} sandboxes, ${conversations} conversations, open after ${opened} ms, settled after ${Date.now() - began} ms, ${wrong.length} wrong`,
      );
    }
    wrong.push(...(await findMismatches(state)));
    await waitUntilConsistent(dataDir, { archived: true });
    const before = await readConversations(state);
    await restart();
    await waitUntilConsistent(dataDir, { archived: true });
    for (const [id, text] of await readConversations(state))
      if (text !== before.get(id))
        wrong.push(`${id} is shown otherwise after a restart: ${difference(before.get(id)!, text)}`);
    for (const [what, count] of [...state.responses].sort()) log(`${count} x ${what}`);
  } finally {
    if (process.env.CHAOS_KEEP && wrong.length > 0) log(`kept: ${dataDir}`);
    await removeSandboxes(server.call).catch(() => {});
    await server.end("SIGTERM");
    logs += server.output();
    wrong.push(
      ...logs.split("\n").filter((line) => line.includes('"level":50') || line.includes('"level":60')),
    );
    hooks.closeAllConnections();
    hooks.close();
    await models.close();
    if (!process.env.CHAOS_KEEP) await rm(dataDir, { recursive: true, force: true });
  }
  return wrong;
}

function difference(before: string, after: string): string {
  const [[, was], [, is]] = [JSON.parse(before), JSON.parse(after)];
  const keys = Object.keys({ ...was, ...is }).filter(
    (key) => JSON.stringify(was[key]) !== JSON.stringify(is[key]),
  );
  return keys.map((key) => `${key} ${JSON.stringify(was[key])} / ${JSON.stringify(is[key])}`).join("; ");
}
