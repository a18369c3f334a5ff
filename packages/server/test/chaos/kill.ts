import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { hexId } from "@sandpiper/wire";
import { Command } from "../support/command.ts";
import { startGitServer } from "../support/git-server.ts";
import { caller, type Json, removeSandboxes } from "../support/platform.ts";
import { terminal } from "../support/script.ts";
import { startServerProcess } from "../support/server-process.ts";
import { waitUntilConsistent } from "./consistency.ts";
import { AnnouncedState, runLoad, type User } from "./load.ts";

const token = "ghp_token-of-chaos-0123456789abcdef";

/** Kills a server `rounds` times under the load of three users; returns every broken promise. */
export async function killRounds(
  rounds: number,
  loadMs: () => number,
  log: (text: string) => void = () => {},
): Promise<string[]> {
  const announced = new AnnouncedState();
  const received = new Map<string, string[]>();
  /** Failed deliveries in a row, by path. */
  const refused = new Map<string, number>();
  const hooks = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    // Some deliveries fail, so that at least one is always waiting. A fourth failure in a row would
    // make the callback wait longer than this harness does.
    const path = request.url!;
    const failures = refused.get(path) ?? 0;
    if (failures < 3 && Math.random() < 0.2) {
      refused.set(path, failures + 1);
      return void response.writeHead(503, { "retry-after": "1" }).end();
    }
    refused.delete(path);
    received.set(path, [...(received.get(path) ?? []), ...JSON.parse(body).map(({ id }: Json) => id)]);
    response.end();
  });
  await new Promise<void>((resolve) => hooks.listen(0, "127.0.0.1", resolve));
  const git = await startGitServer(token);
  git.repository("open/work", {
    "AGENTS.md": "Work.",
    ".openhands/setup.sh": "sleep 0.2; echo ran >>/tmp/setup-runs\n",
    ".openhands/pre-commit.sh": "true\n",
  });
  const models = await startModelServer(async ({ messages }) => {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 300));
    const tools = messages.filter(({ role }) => role === "tool").length;
    const users = messages.filter(({ role }) => role === "user").length;
    return tools < users
      ? reply.toolCalls([terminal(`sleep 0.1; echo worked ${tools}`)])
      : reply.text("Done.");
  });
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-chaos-"));
  await writeFile(
    join(dataDir, "specs.json"),
    JSON.stringify({ specs: [{ id: "host", network: { private: ["127.0.0.0/8"] } }] }),
  );
  const env = {
    NODE_EXTRA_CA_CERTS: git.authority,
    SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8",
    SANDPIPER_MAX_RUNS: "3",
    SANDPIPER_DAILY_BUDGET: "1000",
    SANDPIPER_LOG_LEVEL: "warn",
  };
  let server = await startServerProcess(dataDir, env);
  const users: User[] = [{ name: "default", key: server.key }];
  const wrong: string[] = [];
  let logs = "";
  try {
    for (const name of ["ann", "bob"]) {
      const command = new Command(["keys", "create", "--user", name], { SANDPIPER_DATA: dataDir });
      if ((await command.exit) !== 0) throw new Error(command.stderr);
      users.push({ name, key: command.stdout.trim() });
    }
    for (const [index, { key }] of users.entries()) {
      const call = caller(server.url, key);
      await call("POST", "/api/settings", {
        llm_model: "openai/gpt-4o-mini",
        llm_api_key: "sk-test",
        llm_base_url: models.url,
        sandbox_grouping_strategy: ["NO_GROUPING", "ADD_TO_ANY", "FEWEST_CONVERSATIONS"][index],
      });
      await call("POST", "/api/v1/secrets/git-providers", {
        provider_tokens: { github: { token, host: git.host } },
      });
    }
    const target = { url: server.url };
    for (const user of users) announced.users.set(user.name, user);
    const options = { target, users, announced, repository: "open/work" };
    const endpoint = `http://127.0.0.1:${(hooks.address() as AddressInfo).port}`;
    for (let round = 0; round < rounds; round++) {
      const end = new AbortController();
      const working = runLoad({ ...options, endpoint, signal: end.signal });
      await new Promise((resolve) => setTimeout(resolve, loadMs()));
      await server.end("SIGKILL");
      end.abort();
      await working;
      logs += server.output();
      const began = Date.now();
      server = await startServerProcess(dataDir, env);
      target.url = server.url;
      const opened = Date.now() - began;
      const found = await waitUntilConsistent(dataDir);
      log(
        `round ${round}: ${announced.tasks.size} starts, open after ${opened} ms, settled after ${Date.now() - began} ms, ${found.length} wrong`,
      );
      wrong.push(...found.map((text) => `round ${round}: ${text}`));
      if (found.length > 0) break;
    }
    wrong.push(...(await findMismatches(announced, received, server.url)));
    wrong.push(...announced.unexpected);
  } finally {
    for (const { key } of users) await removeSandboxes(caller(server.url, key)).catch(() => {});
    await server.end("SIGTERM");
    logs += server.output();
    wrong.push(
      ...logs.split("\n").filter((line) => line.includes('"level":50') || line.includes('"level":60')),
    );
    hooks.closeAllConnections();
    hooks.close();
    await models.close();
    await git.close();
    await rm(dataDir, { recursive: true, force: true });
  }
  return wrong;
}

async function findMismatches(
  announced: AnnouncedState,
  received: Map<string, string[]>,
  url: string,
): Promise<string[]> {
  const callerOf = (key: string) => caller(url, key);
  const wrong: string[] = [];
  const eventsOf = async (call: ReturnType<typeof caller>, id: string): Promise<Json[]> => {
    const all: Json[] = [];
    for (let page = "0"; page !== null; ) {
      const { body } = await call(
        "GET",
        `/api/v1/conversation/${id}/events/search?limit=100&page_id=${page}`,
      );
      all.push(...(body.items ?? []));
      page = body.next_page_id ?? null;
    }
    return all;
  };
  for (const [id, { user, said, callback }] of announced.tasks) {
    const call = callerOf(user.key);
    const [task] = (await call("GET", `/api/v1/app-conversations/start-tasks?ids=${id}`)).body;
    if (!task) wrong.push(`start task is gone: ${id}`);
    else if (task.status === "ERROR") wrong.push(`start failed: ${id} ${task.detail}`);
    const conversation = task?.app_conversation_id;
    if (!conversation || announced.deleted.has(conversation)) continue;
    const [shown] = (await call("GET", `/api/v1/app-conversations?ids=${conversation}`)).body;
    if (!shown) {
      // A deletion that was under way at a kill has been done, unannounced.
      if (!/deleted/.test(task.detail ?? "")) continue;
      wrong.push(`conversation is gone: ${conversation}`);
      continue;
    }
    const events = await eventsOf(call, conversation);
    const texts = events
      .filter(({ kind, source }) => kind === "MessageEvent" && source === "user")
      .map(({ llm_message }) => llm_message.content[0].text);
    const known = texts.filter((text) => said.includes(text));
    if (JSON.stringify(known) !== JSON.stringify(said))
      wrong.push(`messages of ${conversation}: said ${said}, stored ${texts}`);
    if (said.length > 0 && shown.execution_status !== "finished")
      wrong.push(
        `${conversation} ended as ${shown.execution_status}: ${JSON.stringify(events.at(-1)).slice(0, 500)}`,
      );
    const open = new Set(
      events.filter(({ kind }) => kind === "ActionEvent").map((event) => event.tool_call_id),
    );
    for (const { kind, tool_call_id } of events) if (kind !== "ActionEvent") open.delete(tool_call_id);
    if (open.size > 0 && shown.execution_status === "finished")
      wrong.push(`actions without a result in ${conversation}`);
    if (!callback) continue;
    const wanted = events.map(({ id: one }) => one);
    const got = () =>
      (received.get(callback) ?? []).filter(
        (one, index, all) => all.indexOf(one) === index && wanted.includes(one),
      );
    for (const end = Date.now() + 30_000; got().length < wanted.length && Date.now() < end; )
      await new Promise((r) => setTimeout(r, 50));
    if (JSON.stringify(got()) !== JSON.stringify(wanted))
      wrong.push(
        `callback of ${conversation}: ${wanted.length} events, ${got().length} arrived or not in order; ${JSON.stringify((await call("GET", `/api/v1/app-conversations/${conversation}/callbacks`)).body)}`,
      );
  }
  for (const { key } of new Set([...announced.tasks.values()].map(({ user }) => user))) {
    const ids = [...announced.deleted];
    for (let at = 0; at < ids.length; at += 50) {
      const { body } = await callerOf(key)(
        "GET",
        `/api/v1/app-conversations?${ids
          .slice(at, at + 50)
          .map((id) => `ids=${id}`)
          .join("&")}`,
      );
      for (const one of body) if (one) wrong.push(`deleted conversation is there: ${one.id}`);
    }
  }
  for (const [id, { user, events }] of announced.reported) {
    const call = callerOf(user.key);
    const [shown] = (await call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    if (!shown) continue;
    const stored = (await eventsOf(call, hexId(id))).map((event) => event.id);
    if (JSON.stringify(stored.slice(0, events.length)) !== JSON.stringify(events))
      wrong.push(`reported events of ${id}: ${events} / ${stored}`);
  }
  for (const [id, user] of announced.snapshots) {
    if ((await callerOf(user.key)("GET", `/api/v1/snapshots/${id}`)).status !== 200)
      wrong.push(`snapshot is gone: ${id}`);
  }
  for (const [name, user] of announced.users) {
    const call = callerOf(user.key);
    const { max_iterations } = (await call("GET", "/api/settings")).body;
    const least = 500 + (announced.counters.get(name) ?? 0);
    if (announced.counters.has(name) && max_iterations < least)
      wrong.push(`settings of ${name}: ${max_iterations}, not ${least}`);
    const { body } = await call("GET", "/api/v1/secrets/search?limit=100");
    for (const secret of announced.secrets.get(name) ?? [])
      if (!body.items.some((item: Json) => item.name === secret))
        wrong.push(`secret of ${name} is gone: ${secret}`);
  }
  for (const { user, path, text } of announced.files.values()) {
    const answer = await fetch(`${url}${path}`, { headers: { "x-session-api-key": user.key } });
    // The sandbox may have been deleted since.
    if (answer.status !== 404 && (await answer.text()) !== text)
      wrong.push(`file is not as it was sent: ${path} ${answer.status}`);
  }
  return wrong;
}
