import { randomBytes } from "node:crypto";
import { type Attack, address, dial, head, keepOpen, keyLine, loops, type Target } from "./attacks-target.ts";

const mebibyte = 2 ** 20;

interface Call {
  path: string;
  method?: string;
  headers?: Record<string, string>;
  body?: string | Buffer<ArrayBuffer>;
  /** Leaves after so many bytes of the response. */
  leaveAfter?: number;
}

/** Sends requests with the key over and over, some at once; `call` makes each of them. */
export function calls(lanes: number, call: (target: Target, index: number) => Call): Attack["run"] {
  return (target, signal) =>
    loops(lanes, signal, async (lane, index) => {
      const { path, headers, leaveAfter, ...rest } = call(target, lane + lanes * index);
      const own = new AbortController();
      const answer = await fetch(target.url + path, {
        ...rest,
        headers: { "X-Session-API-Key": target.key, ...headers },
        signal: AbortSignal.any([signal, own.signal]),
      });
      let bytes = 0;
      for await (const chunk of answer.body ?? []) {
        bytes += chunk.length;
        if (leaveAfter !== undefined && bytes >= leaveAfter) return own.abort();
      }
    });
}

/** Sends bodies whose pieces (of the chunked encoding) have one byte each. */
function pieces(lanes: number, lines: (target: Target) => [string, ...string[]]): Attack["run"] {
  const piece = Buffer.from("1\r\n \r\n".repeat(10_000));
  return (target, signal) =>
    loops(lanes, signal, async () => {
      const socket = dial(target);
      const [first, ...headers] = lines(target);
      socket.write(head(target, first, keyLine(target), "Transfer-Encoding: chunked", ...headers));
      const send = () => {
        while (!signal.aborted && socket.writable && socket.write(piece));
      };
      send();
      await new Promise((resolve) => {
        socket.on("drain", send).once("close", resolve);
        signal.addEventListener("abort", resolve, { once: true });
      });
      socket.destroy();
    });
}

const archive = ({ sandboxId }: Target) => `/api/v1/sandboxes/${sandboxId}/archive?path=/usr/share`;
export const eventsOf = ({ sandboxId, conversationId }: Target) =>
  `/agent/${sandboxId}/api/conversations/${conversationId}/events`;

/** A form with many small fields before its file. */
function form(fields: number): string {
  const part = (name: string, text: string) =>
    `--line\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${text}\r\n`;
  return `${part("field", "x").repeat(fields)}${part("file", "x")}--line--\r\n`;
}

const upload = Buffer.alloc(8 * mebibyte, "x");
const longForm = form(100_000);
const longSetting = JSON.stringify({ llm_model: "x".repeat(900 * 1024) });
const manySettings = JSON.stringify(
  Object.fromEntries(Array.from({ length: 8_000 }, (_, index) => [`unknown_setting_${index}`, index])),
);
const servers = Object.fromEntries(
  Array.from({ length: 4_900 }, (_, index) => [`server_${index}_${"x".repeat(60)}`, {}]),
);
const manyServers = JSON.stringify({ agent_settings_diff: { mcp_config: servers } });
const json = { "Content-Type": "application/json" };

/** Attacks on single routes; most with a key. */
export const routeAttacks: readonly Attack[] = [
  {
    name: "uploads of 8 MB, 8 at once",
    needsPlatform: true,
    run: calls(8, ({ sandboxId }, index) => ({
      method: "PUT",
      path: `/api/v1/sandboxes/${sandboxId}/files?path=/tmp/upload-${index % 8}`,
      headers: { "Content-Type": "application/octet-stream" },
      body: upload,
    })),
  },
  {
    name: "uploads in pieces of one byte",
    needsPlatform: true,
    run: pieces(4, ({ sandboxId }) => [
      `PUT /api/v1/sandboxes/${sandboxId}/files?path=/tmp/pieces`,
      "Content-Type: application/octet-stream",
    ]),
  },
  {
    name: "JSON in pieces of one byte",
    needsPlatform: true,
    run: pieces(4, () => ["POST /api/v1/app-conversations", "Content-Type: application/json"]),
  },
  {
    name: "forms of 100,000 parts",
    needsPlatform: true,
    run: calls(4, ({ sandboxId }) => ({
      method: "POST",
      path: `/agent/${sandboxId}/api/file/upload/${encodeURIComponent("/tmp/form")}`,
      headers: { "Content-Type": "multipart/form-data; boundary=line" },
      body: longForm,
    })),
  },
  {
    name: "event streams of the whole log again and again",
    needsPlatform: true,
    run: calls(50, ({ conversationId }) => ({
      path: `/sockets/events/${conversationId}?resend_mode=all`,
      headers: { Accept: "text/event-stream" },
      leaveAfter: mebibyte,
    })),
  },
  {
    name: "archives, 8 at once",
    needsPlatform: true,
    run: calls(8, (target) => ({ path: archive(target), leaveAfter: 32 * mebibyte })),
  },
  {
    name: "archives that the client leaves at once",
    needsPlatform: true,
    run: calls(8, (target) => ({ path: archive(target), leaveAfter: 1 })),
  },
  {
    name: "50 archives that nobody reads",
    needsPlatform: true,
    run: (target, signal) =>
      keepOpen(50, signal, () => {
        const socket = dial(target);
        socket.write(head(target, `GET ${archive(target)}`, keyLine(target)));
        return socket.pause();
      }),
  },
  {
    name: "questions to the agent, 50 at once",
    needsPlatform: true,
    run: calls(50, ({ sandboxId, conversationId }) => ({
      method: "POST",
      path: `/agent/${sandboxId}/api/conversations/${conversationId}/ask_agent`,
      headers: json,
      body: JSON.stringify({ question: "x".repeat(10_000) }),
    })),
  },
  {
    name: "pages of 100 events, 20 at once",
    needsPlatform: true,
    run: calls(20, (target) => ({ path: `${eventsOf(target)}/search?limit=100` })),
  },
  {
    name: "counts of events by a text that none has, 20 at once",
    needsPlatform: true,
    run: calls(20, (target) => ({ path: `${eventsOf(target)}/count?body=${"absent".repeat(100)}` })),
  },
  {
    name: "lists of conversations by a long title, 20 at once",
    needsPlatform: true,
    run: calls(20, () => ({
      path: `/api/v1/app-conversations/search?limit=100&title__contains=${"x".repeat(8_000)}`,
    })),
  },
  {
    name: "lists of 100 conversations by id, 20 at once",
    needsPlatform: true,
    run: calls(20, ({ conversationId }) => ({
      path: `/api/v1/app-conversations?${Array.from({ length: 100 }, () => `ids=${conversationId}`).join("&")}`,
    })),
  },
  {
    name: "a setting of 900 KB",
    needsPlatform: true,
    run: calls(4, () => ({ method: "POST", path: "/api/settings", headers: json, body: longSetting })),
  },
  {
    name: "8,000 unknown settings",
    needsPlatform: true,
    run: calls(4, () => ({ method: "POST", path: "/api/settings", headers: json, body: manySettings })),
  },
  {
    name: "settings with 4,900 MCP servers",
    needsPlatform: true,
    run: calls(4, () => ({ method: "POST", path: "/api/v1/settings", headers: json, body: manyServers })),
  },
  {
    name: "previews of a port that nobody serves, 50 at once",
    needsPlatform: true,
    run: calls(50, ({ sandboxId }) => ({ path: `/preview/${sandboxId}/4321/` })),
  },
  {
    name: "login tries from 500 addresses",
    needsPlatform: true,
    run: (target, signal) =>
      loops(100, signal, async (lane, index) => {
        const socket = dial(target, address(lane + 100 * (index % 5)));
        const body = `key=${randomBytes(30).toString("base64url")}`;
        const lines = ["Content-Type: application/x-www-form-urlencoded", `Content-Length: ${body.length}`];
        socket.write(head(target, "POST /login", ...lines, "Connection: close") + body);
        await new Promise((resolve) => socket.once("close", resolve));
      }),
  },
];
