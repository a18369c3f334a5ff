import { once } from "node:events";
import { readdirSync } from "node:fs";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { startTestPlatform, type TestPlatform, until } from "./support/platform.ts";
import { TerminalClient } from "./support/terminal-client.ts";

/** Interactive terminals in real sandboxes over real sockets. */

let server: TestPlatform;
let id: string;
let sessionKey: string;
const open: TerminalClient[] = [];

beforeAll(async () => {
  server = await startTestPlatform();
  ({ id, sessionKey } = await newSandbox());
});
afterEach(() => {
  for (const { socket } of open.splice(0)) socket.terminate();
});
afterAll(() => server.stop());

async function newSandbox() {
  const { id } = (await server.call("POST", "/api/v1/sandboxes")).body;
  await server.running(id);
  const { body } = await server.call("GET", `/api/v1/sandboxes?id=${id}`);
  return { id, sessionKey: body[0].session_api_key };
}

function terminal(query = "", sandbox = id): TerminalClient {
  const client = new TerminalClient(server, `/agent/${sandbox}/sockets/terminal${query}`);
  open.push(client);
  return client;
}

/** The output of a command in the sandbox. */
async function sh(command: string, sandbox = id): Promise<string> {
  const { stdout } = await runToEnd(await server.running(sandbox), {
    argv: ["sh", "-c", command],
  });
  return stdout.toString();
}

test("a shell in the working folder echoes input and shows output, and its exit code closes the socket", async () => {
  const client = terminal("?cols=91&rows=17");
  client.type("stty size; pwd; echo $TERM $HOME $SHELL; test -t 0 && echo on a tty\r");
  await client.shows(/17 91\r\n\/workspace\S*\r\nxterm-256color \/home\/\S+ \S*bash\r\non a tty\r\n/);
  client.type("exit 7\r");
  expect(await client.closed).toEqual({ code: 1000, reason: "exit 7" });
});

test("a key in the query, a session key at the root and an auth frame open a terminal too", async () => {
  const paths = [
    [`/sockets/terminal?session_api_key=${sessionKey}`, {}],
    [`/sockets/terminal?sandbox_id=${id}&session_api_key=${server.key}`, {}],
    [`/agent/${id}/sockets/terminal`, { authorization: `Bearer ${sessionKey}` }],
    [`/agent/${id}/sockets/terminal`, {}],
  ] as const;
  for (const [path, headers] of paths) {
    const client = new TerminalClient(server, path, headers);
    open.push(client);
    await once(client.socket, "open");
    if (path.endsWith("/terminal") && !("authorization" in headers))
      client.send({ type: "auth", session_api_key: sessionKey });
    client.send({ type: "input", data: "echo $((40 + 2))\r" });
    await client.shows(/\r\n42\r\n/);
  }
});

test("text frames are input too, as xterm.js's AttachAddon sends them; UTF-8 is not split", async () => {
  const client = terminal();
  client.raw("echo 'ä€🙂' | wc -c\r");
  await client.shows(/\r\n10\r\n/);
  client.type("printf '{\"%s\":1}\\n' ü\r");
  await client.shows(/\r\n{"ü":1}\r\n/);
  client.type("cat\r");
  // Bash shows the line before it hands the terminal over.
  await until(async () => (await sh("pgrep -x cat")) !== "");
  for (const byte of Buffer.from("🙂\r")) client.raw(Buffer.from([byte]));
  client.raw('{"kind":"no control frame"}\r');
  await until(
    () =>
      client.shown.split("🙂").length === 3 && client.shown.split('{"kind":"no control frame"}').length === 3,
  );
});

test("a resize reaches the program, and invalid sizes are ignored", async () => {
  const client = terminal();
  client.type('trap "stty size" WINCH; echo rea""dy\r');
  await client.shows(/ready\r\n/);
  for (const cols of [null, "x", -1, 1e300]) client.send({ type: "resize", cols, rows: null });
  client.send({ type: "resize", cols: 133, rows: 44 });
  client.type('while [ "$(stty size)" != "44 133" ]; do sleep 0.01; done; echo gr""own\r');
  await client.shows(/grown\r\n/);
  client.send({ type: "resize", cols: 1e9, rows: 1 });
  client.type('while [ "$(stty size)" != "1 1000" ]; do sleep 0.01; done; echo bou""nded\r');
  await client.shows(/bounded/);
});

test("Ctrl-C ends the program in the foreground and Ctrl-D the shell", async () => {
  const client = terminal();
  client.type("sleep 1000\r");
  await until(async () => (await sh("pgrep -x sleep")) !== "");
  client.type("\x03");
  client.type("echo $?\r");
  await client.shows(/\r\n130\r\n/);
  client.type("\x04");
  expect(await client.closed).toMatchObject({ code: 1000, reason: expect.stringMatching(/^exit \d+$/) });
});

test("cwd selects the folder, and the shell reports a missing folder", async () => {
  const client = terminal("?cwd=/usr/bin");
  client.type("pwd\r");
  await client.shows(/\r\n\/usr\/bin\r\n/);
  const other = terminal(`?cwd=${encodeURIComponent("no such;$(touch /tmp/planted)")}`);
  await other.shows(/no such;/);
  other.type("ls /tmp/planted\r");
  await other.shows(/cannot access/);
});

test("without a terminal the shell reads commands from a pipe, without echo and prompt, until eof", async () => {
  const client = terminal("?tty=false");
  client.type("test -t 0 || echo 'no tty'; echo to stderr >&2; exit 3");
  client.send({ type: "eof" });
  expect(await client.closed).toEqual({ code: 1000, reason: "exit 3" });
  expect(client.shown.split("\n").sort()).toEqual(["", "no tty", "to stderr"]);
});

test("wrong queries, unknown sandboxes, read-only keys and too large frames are refused with a reason", async () => {
  expect(await terminal("?cols=wide").closed).toEqual({
    code: 1008,
    reason: "cols: Input should be a valid integer",
  });
  expect(await terminal("?cwd=a%00b").closed).toMatchObject({
    code: 1008,
    reason: expect.stringMatching(/^cwd:/),
  });
  const root = (query: string, key = server.key) => {
    const client = new TerminalClient(server, `/sockets/terminal${query}`, { "x-session-api-key": key });
    open.push(client);
    return client.closed;
  };
  expect(await root("")).toMatchObject({ code: 4004, reason: expect.stringMatching(/^Name the sandbox/) });
  expect(await root("?sandbox_id=../../etc")).toEqual({ code: 4004, reason: "Sandbox not found" });
  const { key: readOnly } = await server.platform.apiKeys.add("default", {
    name: "reader",
    expiresAt: null,
    readOnly: true,
  });
  expect(await root(`?sandbox_id=${id}`, readOnly)).toMatchObject({
    code: 4001,
    reason: expect.stringMatching(/read-only/),
  });
  const stranger = await server.platform.apiKeys.create("stranger", "other");
  expect(await root(`?sandbox_id=${id}`, stranger)).toEqual({ code: 4004, reason: "Sandbox not found" });

  const client = terminal();
  client.type("x".repeat(1024 * 1024 + 1));
  expect(await client.closed).toMatchObject({ code: 1009 });
});

test("a client that does not read blocks its program, and neither uses server memory nor delays others", async () => {
  const slow = terminal();
  slow.type('echo y""es; yes\r');
  await slow.shows(/yes\r\n/);
  slow.socket.pause();
  const printed = () => sh("cat /proc/$(pgrep -x yes)/io | grep wchar");
  const standing = async () => {
    const before = await printed();
    await new Promise((resolve) => setTimeout(resolve, 100));
    return before !== "" && before === (await printed());
  };
  await until(standing);
  const held = process.memoryUsage().rss;
  const other = terminal();
  other.type("echo $((6 * 7))\r");
  await other.shows(/\r\n42\r\n/);
  expect(process.memoryUsage().rss - held).toBeLessThan(50 * 1024 * 1024);
  slow.socket.resume();
  const before = slow.bytes;
  await until(() => slow.bytes > before + 5_000_000);
  slow.type("\x03");
  slow.type('\r\recho aga""in\r');
  await slow.shows(/again\r\n/);
});

test("unread input blocks the client and nothing else", async () => {
  const client = terminal("?tty=false");
  client.type("sleep 1; cat | wc -c\n");
  for (let i = 0; i < 40; i++) client.type("x".repeat(500_000));
  client.send({ type: "eof" });
  await client.shows(/20000000\n/);
  expect(await client.closed).toEqual({ code: 1000, reason: "exit 0" });
});

test("when the client vanishes, the shell and its jobs end, and nohup processes keep running", async () => {
  const client = terminal();
  client.type("sleep 1001 & nohup sleep 1002 >/dev/null 2>&1 & (trap '' TERM; sleep 1003); echo\r");
  const running = () => sh("pgrep -a sleep; pgrep -a bash");
  await until(async () => /sleep 1001.*sleep 1002.*sleep 1003/s.test(await running()));
  client.socket.terminate();
  await until(async () => (await running()).trim().replace(/^\d+ /, "") === "sleep 1002");
  await sh("pkill sleep");
});

test("a key press wakes a paused sandbox with its shell; a deleted one closes its terminals", async () => {
  const other = await newSandbox();
  const client = terminal("", other.id);
  client.type("here=still; echo $here\r");
  await client.shows(/still\r\n/);
  const vanishing = terminal("", other.id);
  await vanishing.shows(/\$ /);
  await server.call("POST", `/api/v1/sandboxes/${other.id}/pause`);
  vanishing.socket.terminate();
  client.send({ type: "resize", cols: 99, rows: 33 });
  const status = async () => (await server.call("GET", `/api/v1/sandboxes?id=${other.id}`)).body[0].status;
  expect(await status()).toBe("PAUSED");
  client.type('while [ "$(stty size)" != "33 99" ]; do sleep 0.01; done; echo $here th""ere\r');
  await client.shows(/still there\r\n/);
  expect(await status()).toBe("RUNNING");
  await until(async () => (await sh("pgrep -c bash", other.id)) === "1\n");
  await server.call("DELETE", `/api/v1/sandboxes/${other.id}?sandbox_id=${other.id}`);
  expect(await client.closed).toEqual({ code: 4004, reason: "The sandbox has been deleted" });
});

test("100 consecutive terminals leave no process and no descriptor; a user may have 32 at a time", async () => {
  const descriptors = () => readdirSync("/proc/self/fd").length;
  const shells = () => sh("pgrep -c bash");
  await until(async () => (await shells()).trim() === "0");
  const before = descriptors();
  for (let round = 0; round < 4; round++) {
    const clients = Array.from({ length: 25 }, () => terminal());
    // Some vanish while their shell is being started.
    for (const { socket } of clients.filter((_, index) => index % 5 === 0))
      socket.once("open", () => socket.terminate());
    for (const [index, client] of clients.entries()) {
      if (index % 5 !== 0) {
        await client.shows(/\$ /);
        index % 2 ? client.socket.close() : client.type("exit\r");
      }
      await client.closed;
    }
  }
  await until(async () => (await shells()).trim() === "0");
  await until(() => descriptors() <= before + 3);

  const many = Array.from({ length: 33 }, () => terminal());
  const refused = await Promise.race(many.map(({ closed }) => closed));
  expect(refused).toMatchObject({ code: 1013, reason: expect.stringMatching(/^Too many terminals/) });
});
