import { flood, many } from "./attacks-http.ts";
import { calls, eventsOf } from "./attacks-routes.ts";
import { events, upgrade } from "./attacks-sockets.ts";
import { type Attack, dial, head, keepOpen, keyLine, loops, type Target } from "./attacks-target.ts";

const json = { "Content-Type": "application/json" };
const sandbox = ({ sandboxId }: Target) => `/api/v1/sandboxes/${sandboxId}`;
const agent = ({ sandboxId }: Target) => `/agent/${sandboxId}/api`;

/** Reads of one path, some at once. */
function reads(name: string, lanes: number, path: (target: Target, index: number) => string): Attack {
  return {
    name: `${name}, ${lanes} at once`,
    needsPlatform: true,
    run: calls(lanes, (target, index) => ({ path: path(target, index) })),
  };
}

/** Small writes, some at once. */
function writes(
  name: string,
  lanes: number,
  write: (target: Target, index: number) => { path: string; body?: object; method?: string },
): Attack {
  const run = calls(lanes, (target, index) => {
    const { path, body, method = "POST" } = write(target, index);
    return { path, method, headers: json, ...(body && { body: JSON.stringify(body) }) };
  });
  return { name: `${name}, ${lanes} at once`, needsPlatform: true, run };
}

/** Connections that ask for one path and never read the answer. */
function unread(name: string, count: number, path: (target: Target) => string): Attack {
  const run: Attack["run"] = (target, signal) =>
    keepOpen(count, signal, () => {
      const socket = dial(target);
      socket.write(head(target, `GET ${path(target)}`, keyLine(target)));
      return socket.pause();
    });
  return { name: `${count} ${name} that nobody reads`, needsPlatform: true, run };
}

/** Sockets that are opened and left at their first frame, over and over. */
function reopened(name: string, lanes: number, path: (target: Target) => string): Attack {
  const run: Attack["run"] = (target, signal) =>
    loops(lanes, signal, async () => {
      const socket = upgrade(target, path(target), true);
      await new Promise((resolve) => socket.once("data", resolve).once("close", resolve));
      socket.destroy();
    });
  return { name: `${name} again and again`, needsPlatform: true, run };
}

/** Attacks with what clients do every day, many times at once. */
export const everydayAttacks: readonly Attack[] = [
  {
    name: "pipelined preflights",
    run: flood(4, (target) =>
      many(
        500,
        head(
          target,
          "OPTIONS /api/v1/app-conversations/search",
          "Origin: http://localhost:5173",
          "Access-Control-Request-Method: GET",
        ),
      ),
    ),
  },
  {
    name: "pipelined HEAD of /openapi.json with gzip",
    run: flood(4, (target) => many(200, head(target, "HEAD /openapi.json", "Accept-Encoding: gzip, br"))),
  },
  reads("documents of the agent server", 20, ({ sandboxId }) => `/agent/${sandboxId}/openapi.json`),
  reads(
    "lists of conversations of a sandbox",
    20,
    (target) => `${agent(target)}/conversations/search?limit=100`,
  ),
  reads(
    "searches by different titles",
    20,
    (_, index) => `/api/v1/app-conversations/search?limit=100&title__contains=${index}`,
  ),
  reads(
    "searches of events by different texts",
    20,
    (target, index) => `${eventsOf(target)}/search?limit=100&body=absent${index}`,
  ),
  reads(
    "conversations as ZIP",
    8,
    ({ conversationId }) => `/api/v1/app-conversations/${conversationId}/download`,
  ),
  reads(
    "folders of thousands of files",
    20,
    (target) => `${sandbox(target)}/files/list?path=/usr/bin&limit=100`,
  ),
  reads("changes of a folder", 20, (target) => `${agent(target)}/git/changes?path=/workspace`),
  reads("lists of models", 20, () => "/api/v1/config/models/search?limit=100"),
  reads("settings with their schemas", 20, (_, index) =>
    index % 2 === 0 ? "/api/settings" : "/api/settings/agent-schema",
  ),
  writes("settings", 20, (_, index) => ({
    path: "/api/settings",
    body: { max_iterations: 100 + (index % 100) },
  })),
  writes("secrets", 20, (_, index) => ({
    path: "/api/v1/secrets",
    body: { name: `SECRET_${index}`, value: `value-of-secret-${index}` },
  })),
  writes("keys", 20, (_, index) => ({ path: "/api/keys", body: { name: `key ${index}` } })),
  writes("messages", 50, ({ sandboxId, conversationId }, index) => ({
    path: `/agent/${sandboxId}/api/conversations/${conversationId}/events`,
    body: { role: "user", content: [{ type: "text", text: `message ${index}` }], run: false },
  })),
  writes("starts in the same sandbox", 20, ({ sandboxId }) => ({
    path: "/api/v1/app-conversations",
    body: { sandbox_id: sandboxId },
  })),
  {
    name: "conversations made and deleted, 20 at once",
    needsPlatform: true,
    run: (target, signal) =>
      loops(20, signal, async () => {
        const base = `${target.url}${agent(target)}/conversations`;
        const headers = { "X-Session-API-Key": target.key, ...json };
        const body = JSON.stringify({
          agent: { kind: "Agent", llm: { model: "openai/none", api_key: "none" }, tools: [] },
          workspace: { kind: "LocalWorkspace", working_dir: "/workspace" },
        });
        const made = await fetch(base, { method: "POST", headers, body, signal });
        const { id } = (await made.json()) as { id: string };
        await (await fetch(`${base}/${id}`, { method: "DELETE", headers, signal })).arrayBuffer();
      }),
  },
  writes("forks", 8, (target) => ({
    path: `${agent(target)}/conversations/${target.conversationId}/fork`,
    body: {},
  })),
  unread("pages of events", 200, (target) => `${eventsOf(target)}/search?limit=100`),
  unread("documents", 200, () => "/openapi.json"),
  reopened("terminals", 20, ({ sandboxId }) => `/sockets/terminal?sandbox_id=${sandboxId}&cols=80&rows=24`),
  reopened(
    "sockets of bash events",
    50,
    ({ sandboxId }) => `/agent/${sandboxId}/sockets/bash-events?resend_mode=all`,
  ),
  reopened("followers of new events", 50, (target) => events(target)),
];
