import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import { Command } from "./support/command.ts";

/** The configurations of docs/team/reverse-proxy.md, used by the real programs. */

const page = new URL("../../../docs/team/reverse-proxy.md", import.meta.url);
const key = "a-key-for-this-test";
let base = "";
let certificate = "";
let server: Command;
let proxy: ChildProcess;

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper-proxy-"));
  execFileSync(
    "openssl",
    [
      ..."req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost".split(
        " ",
      ),
      ...["-addext", "subjectAltName=DNS:localhost"],
      ...["-keyout", join(base, "key.pem"), "-out", join(base, "certificate.pem")],
    ],
    { stdio: "ignore" },
  );
  certificate = await readFile(join(base, "certificate.pem"), "utf8");
});
afterEach(async () => {
  proxy.kill("SIGTERM");
  server.signal("SIGTERM");
  await server.exit;
  await rm(base, { recursive: true, force: true });
});

async function freePort(): Promise<number> {
  const listener = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => listener.once("listening", resolve));
  const { port } = listener.address() as { port: number };
  await new Promise((resolve) => listener.close(resolve));
  return port;
}

/** The block of a language on the page, with the names and ports of this test. */
async function configuration(language: string, port: number, target: number): Promise<string> {
  const block = new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``).exec(await readFile(page, "utf8"))![1]!;
  return block
    .replaceAll("/etc/ssl/agents.example.org.pem", join(base, "certificate.pem"))
    .replaceAll("/etc/ssl/agents.example.org.key", join(base, "key.pem"))
    .replace("listen 443 ssl", `listen 127.0.0.1:${port} ssl`)
    .replace("agents.example.org {", `localhost:${port} {\n  bind 127.0.0.1`)
    .replaceAll("agents.example.org", "localhost")
    .replace("127.0.0.1:3000", `127.0.0.1:${target}`);
}

async function startNginx(port: number, target: number): Promise<void> {
  const file = join(base, "nginx.conf");
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  const temporary = paths.map((name) => `${name}_temp_path ${base}/${name};`).join(" ");
  await writeFile(
    file,
    `daemon off; pid ${base}/nginx.pid; error_log stderr; events {}\nhttp { access_log off; ${temporary}\n${await configuration("nginx", port, target)}}`,
  );
  proxy = spawn("nginx", ["-c", file], {
    stdio: "inherit",
    env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` },
  });
}

async function startCaddy(port: number, target: number): Promise<void> {
  const file = join(base, "Caddyfile");
  await writeFile(
    file,
    `{\n  admin off\n  auto_https disable_redirects\n}\n${await configuration("caddy", port, target)}`,
  );
  proxy = spawn("caddy", ["run", "--config", file, "--adapter", "caddyfile"], {
    stdio: "ignore",
    env: { ...process.env, HOME: base, XDG_DATA_HOME: base, XDG_CONFIG_HOME: base },
  });
}

interface Call {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Buffer;
}

async function call(url: string, { method = "GET", headers = {}, body }: Call = {}) {
  const sent = request(url, { method, headers, ca: certificate });
  const answer = new Promise<import("node:http").IncomingMessage>((resolve, reject) =>
    sent.on("response", resolve).on("error", reject),
  );
  sent.end(body);
  const response = await answer;
  return { status: response.statusCode!, headers: response.headers, text: await text(response) };
}

const withKey = { "X-Session-API-Key": key };
const json = { ...withKey, "Content-Type": "application/json" };

/** Follows the conversation's socket until the agent says the text. */
async function follow(url: string, id: string, said: string): Promise<void> {
  const socket = new WebSocket(`${url.replace("https:", "wss:")}/sockets/events/${id}?resend_mode=all`, {
    ca: certificate,
    headers: withKey,
  });
  await new Promise<void>((resolve, reject) => {
    socket.on("error", reject).on("close", () => reject(new Error("The socket closed.")));
    socket.on("message", (data) => {
      if (String(data).includes(said)) resolve();
    });
  });
  socket.close();
}

test.each([
  ["nginx", startNginx],
  ["Caddy", startCaddy],
] as const)(
  "%s with the documented configuration serves a login, an upload and a live conversation",
  async (_name, start) => {
    const port = await freePort();
    const url = `https://localhost:${port}`;
    server = new Command(["serve"], {
      SANDPIPER_DATA: join(base, "data"),
      SANDPIPER_PORT: "0",
      SANDPIPER_API_KEY: key,
      SANDPIPER_PUBLIC_URL: url,
      SANDPIPER_TRUSTED_PROXIES: "127.0.0.1/32",
    });
    await server.says(/Data folder/);
    const { url: own } = JSON.parse(await readFile(join(base, "data/server.json"), "utf8")) as {
      url: string;
    };
    await start(port, Number(new URL(own).port));
    await expect.poll(() => call(`${url}/health`).then(({ status }) => status, String)).toBe(200);

    const login = await call(`${url}/login`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Origin: url },
      body: JSON.stringify({ key }),
    });
    expect(String(login.headers["set-cookie"])).toMatch(/^__Host-sandpiper_login=.*Secure/);

    const started = await call(`${url}/api/v1/app-conversations`, {
      method: "POST",
      headers: json,
      body: JSON.stringify({
        llm_model: "demo/repair",
        initial_message: { content: [{ type: "text", text: "Say what is here." }] },
      }),
    });
    expect(started.status, started.text).toBe(200);
    const task = (JSON.parse(started.text) as { id: string }).id;
    const ready = () =>
      call(`${url}/api/v1/app-conversations/start-tasks?ids=${task}`, { headers: withKey }).then(
        (answer) =>
          (JSON.parse(answer.text) as { app_conversation_id: string | null; sandbox_id: string }[])[0]!,
      );
    await expect.poll(async () => (await ready()).app_conversation_id).toBeTruthy();
    const { app_conversation_id: conversation, sandbox_id: sandbox } = await ready();
    await follow(url, conversation!, "I am a demo");

    const body = Buffer.alloc(20 * 2 ** 20, "x");
    const file = `${url}/api/v1/sandboxes/${sandbox}/files?path=/tmp/large`;
    const upload = await call(file, { method: "PUT", headers: withKey, body });
    expect(upload.status, upload.text).toBeLessThan(300);
    expect((await call(file, { headers: withKey })).text.length).toBe(body.length);
  },
);
