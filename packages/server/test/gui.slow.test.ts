import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Chromium } from "./support/chromium.ts";
import { Command } from "./support/command.ts";

/** `sandpiper gui`, with the released Agent Canvas in a real browser. */

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 });

const key = "a-key-for-this-test";
let base: string;
let server: Command;
let url: string;
let env: Record<string, string>;

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper-gui-"));
  env = { SANDPIPER_DATA: join(base, "data"), XDG_CACHE_HOME: join(base, "cache") };
  server = new Command(["serve"], { ...env, SANDPIPER_PORT: "0", SANDPIPER_API_KEY: key });
  [, url = ""] = await server.says(/serves (http\S+)/);
  await server.says(/Data folder/);
  const settings = await fetch(`${url}/api/settings`, {
    method: "POST",
    headers: { "X-Session-API-Key": key, "content-type": "application/json" },
    // The GUI sends nothing before a key is stored, also for a model that needs none.
    body: JSON.stringify({ llm_model: "demo/repair", llm_api_key: "unused" }),
  });
  expect(settings.status).toBe(200);
});
afterAll(async () => {
  server?.signal("SIGTERM");
  await server?.exit;
  await rm(base, { recursive: true, force: true });
});

async function startGui(more: Record<string, string> = {}): Promise<{ gui: Command; opening: string }> {
  const gui = new Command(["gui", "--port", "0"], { ...env, ...more });
  const [, opening = ""] = await gui.says(/for one browser: (\S+)\n.*\n/);
  return { gui, opening };
}

test("the printed address logs a browser in, once; a conversation that begins there shows its events", async () => {
  const { gui, opening } = await startGui();
  const { origin } = new URL(opening);
  const browser = await Chromium.start();
  try {
    await browser.open(opening);
    await browser.sees(
      `location.href === "${origin}/" && document.querySelector("[data-testid=chat-input]")`,
    );
    await browser.evaluate(`localStorage.setItem("openhands-onboarded", "true")`);
    await browser.open(`${origin}/conversations`);
    await browser.click("[data-testid=chat-input]");
    await browser.type("Say what is in this folder.");
    await browser.click("[data-testid=submit-button]");
    await browser.sees(`/^\\/conversations\\/[0-9a-f]/.test(location.pathname)`);
    await browser.says(/I am a demo/);
    // Only fonts of another site are refused, and only the answers of services that are not there.
    const unexpected = browser.problems.filter(
      (text) => !/fonts\.googleapis\.com|status of 404 .*\/api\/(automation|v1\/settings)/.test(text),
    );
    if (process.env.SCREENSHOT) await writeFile(process.env.SCREENSHOT, await browser.screenshot());
    expect(unexpected).toEqual([]);
  } finally {
    await browser.close();
  }

  const second = await Chromium.start();
  try {
    await second.open(opening);
    await second.sees(`location.pathname === "/login"`);
    await second.open(`${origin}/settings/secrets`);
    await second.sees(`document.querySelector("#key")`);
    await second.evaluate(`document.querySelector("#key").focus()`);
    await second.type(key);
    await second.click("button");
    await second.sees(`location.pathname === "/settings/secrets" && document.querySelector("nav, aside")`);
  } finally {
    await second.close();
  }
  gui.ctrlC();
  expect(await gui.exit).toBe(0);
  await expect(fetch(origin)).rejects.toThrow();
});

test("the address has no rights of its own, and the login ends with the command", async () => {
  const { gui, opening } = await startGui();
  const { origin, hash } = new URL(opening);
  const open = (token: string) => fetch(`${origin}/open`, { method: "POST", body: token });
  expect((await fetch(`${origin}/api/keys`)).status).toBe(401);
  for (const token of ["", "x", "x".repeat(32), "x".repeat(200)])
    expect((await open(token)).status, token).toBe(401);
  const opened = await open(hash.slice(1));
  expect(opened.status).toBe(204);
  expect((await open(hash.slice(1))).status).toBe(401);
  const cookie = opened.headers.getSetCookie()[0]!.split(";")[0]!;
  const keys = (headers: Record<string, string>) => fetch(`${origin}/api/keys`, { headers });
  expect((await keys({ cookie })).status).toBe(200);
  // A page of another site is refused, whatever it calls itself.
  expect((await keys({ cookie, origin: "https://evil.example" })).status).toBe(403);
  expect((await keys({ cookie, "sec-fetch-site": "cross-site" })).status).toBe(403);
  const page = await fetch(origin, { headers: { cookie } });
  expect(page.headers.get("content-security-policy")).toMatch(
    /^default-src 'none'; script-src 'self' 'sha256-[^;]*; style-src/,
  );
  expect((await fetch(`${origin}/assets/none.js`)).status).toBe(404);
  gui.ctrlC();
  expect(await gui.exit).toBe(0);
  expect((await fetch(`${url}/api/keys`, { headers: { cookie } })).status).toBe(401);
});

test("the package comes from the cache when it is the released one, and from npm otherwise", async () => {
  const file = join(env.XDG_CACHE_HOME!, "sandpiper/agent-canvas-1.20.0.tgz");
  const { size } = await stat(file);
  await writeFile(file, (await readFile(file)).subarray(1));
  const noNetwork = { npm_config_registry: "http://127.0.0.1:1999/" };
  const refused = new Command(["gui", "--port", "0"], { ...env, ...noNetwork });
  expect(await refused.exit).toBe(1);
  expect(refused.stderr).toMatch(
    /^Fetching .*\nsandpiper: npm could not fetch @openhands\/agent-canvas 1\.20\.0: .*ECONNREFUSED.*\. Check the connection to npm's registry, then run this again\.\n$/,
  );
  const fetched = await startGui();
  fetched.gui.ctrlC();
  expect(await fetched.gui.exit).toBe(0);
  expect((await stat(file)).size).toBe(size);
  const cached = await startGui(noNetwork);
  expect(cached.gui.stderr).toBe("");
  cached.gui.ctrlC();
  expect(await cached.gui.exit).toBe(0);
});

test("a missing npm, a taken port, a server that is away and a wrong key are one sentence each", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => taken.once("listening", resolve));
  const { port } = taken.address() as { port: number };
  const cases: [string[], Record<string, string>, RegExp, number][] = [
    [["--port", String(port)], {}, /^sandpiper: Port \d+ is taken: choose another one with --port/m, 2],
    [["--port", "x"], {}, /It must be a number from 0 to 65535/, 2],
    [
      [],
      { SANDPIPER_URL: "http://127.0.0.1:1999", SANDPIPER_API_KEY: key },
      /could not be reached: nothing/,
      1,
    ],
    [[], { SANDPIPER_URL: url, SANDPIPER_API_KEY: "wrong" }, /does not accept the API key/, 1],
    [
      [],
      { XDG_CACHE_HOME: join(base, "empty"), PATH: join(base, "nothing") },
      /sandpiper: npm is missing: install it, then run this again\.\n$/,
      1,
    ],
  ];
  for (const [args, more, sentence, code] of cases) {
    const options = more.PATH ? { program: [process.execPath, mainFile] } : {};
    const gui = new Command(["gui", "--port", "0", ...args], { ...env, ...more }, options);
    expect([await gui.exit, gui.stderr]).toEqual([code, expect.stringMatching(sentence)]);
  }
  taken.close();
});

const mainFile = fileURLToPath(new URL("../src/main.ts", import.meta.url));
