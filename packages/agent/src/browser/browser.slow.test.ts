import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { stub } from "@sandpiper/core/test/support/stub";
import { OciDriver } from "@sandpiper/sandbox/drivers/oci/oci-driver";
import { egressToken } from "@sandpiper/sandbox/network/environment";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { createHostSpec } from "@sandpiper/sandbox/specs/specs";
import { ownAddress, policyOf, serve, TestProxy } from "@sandpiper/sandbox/test/support/egress";
import type { Action, BrowserObservation } from "@sandpiper/wire";
import { contentText } from "@sandpiper/wire";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { site } from "../../test/support/browser-site.ts";
import { browserTools } from "../tools/browser/index.ts";
import { resolveToolCall } from "../tools/call.ts";
import { toolRegistry } from "../tools/registry.ts";
import type { ToolContext } from "../tools/tool.ts";
import { Browser } from "./browser.ts";

/**
 * A real Chromium in a real sandbox, on a site that listens inside of it, and behind the real
 * proxy.
 */

const id = "browser-1";
const address = ownAddress();
const local = "http://localhost:8000";
const server = createServer(site);
let dir: string;
let driver: OciDriver;
let proxy: TestProxy;
let sandbox: Sandbox;
let browser: Browser;
const outside: { close(): void }[] = [];

const usual = { navigateMs: 20_000, loadMs: 10_000, answerMs: 15_000 };
const patience = { ...usual };
const place = () => ({
  sandbox,
  connect: (port: number) => driver.connect(id, port),
  dir: "/tmp/browser_test",
  patience,
});

beforeAll(async () => {
  dir = mkdtempSync("/tmp/sandpiper-test-");
  proxy = await TestProxy.open({ env: { SECRET: "value" }, resolve: async () => [address] });
  driver = new OciDriver({ dir: `${dir}/sandboxes` });
  await driver.open();
  const hosts = ["site.test", "tls.test"];
  const policy = policyOf({
    allow: hosts.map((host) => ({ host, ports: [80, 443], methods: null })),
    credentials: [{ name: "TOKEN", hosts: ["tls.test"], fromEnv: "SECRET" }],
  });
  const proxied = { id, policy, token: egressToken("session key") };
  const spec = createHostSpec({ memoryBytes: 2 * 2 ** 30, pids: 512, cpus: 2, diskBytes: 2 ** 30 }, policy);
  await driver.start({
    id,
    spec: { ...spec, env: await proxy.proxy.environment(proxied) },
    files: proxy.proxy.files({ policy }),
  });
  await proxy.proxy.attach(proxied, (port, accept) => driver.listen(id, port, accept));
  outside.push(
    await serve(site, { address, port: 80 }),
    await serve(site, { address, port: 443, host: "tls.test" }),
  );
  await driver.listen(id, 8000, (connection) => server.emit("connection", connection));
  sandbox = { id, incarnation: "1", spec, shell: driver.shell, exec: (command) => driver.exec(id, command) };
  browser = new Browser(place());
});
beforeEach(() => void Object.assign(patience, usual));
afterAll(async () => {
  browser.release();
  for (const one of outside) one.close();
  await proxy.close();
  await driver.remove(id);
  await driver.close();
  rmSync(dir, { recursive: true, force: true });
});

async function call(
  name: string,
  args: object = {},
  signal = new AbortController().signal,
): Promise<BrowserObservation> {
  const given = {
    id: "1",
    name: `browser_${name}`,
    arguments: JSON.stringify(args),
    origin: "completion",
  } as const;
  const resolved = resolveToolCall(given, browserTools);
  if ("error" in resolved) throw new Error(resolved.error);
  const context = stub<ToolContext>({ browser: async () => browser, signal });
  return resolved.tool.run(resolved.action as Action, context) as Promise<BrowserObservation>;
}
const text = (observation: BrowserObservation) => contentText(observation.content);
const open = async (path: string) =>
  text(await call("navigate", { url: path.startsWith("/") ? local + path : path }));
const state = async () => JSON.parse(text(await call("get_state")));
const content = async (more = {}) => text(await call("get_content", more));
/** The number of the element whose facts hold the text. */
async function find(part: string): Promise<number> {
  const all: { index: number }[] = (await state()).interactive_elements;
  return all.find((element) => JSON.stringify(element).includes(part))!.index;
}
async function closeAll(): Promise<void> {
  for (const { tab_id } of JSON.parse(text(await call("list_tabs")))) await call("close_tab", { tab_id });
}
const sh = (script: string) => runToEnd(sandbox, { argv: ["sh", "-c", script], cwd: "/" });

describe("a page", () => {
  test("is read: its text and its controls, including frames and shadow trees", async () => {
    expect(await open("localhost:8000/")).toMatch(
      /^The active tab [0-9a-f]{4} shows http:\/\/localhost:8000\/, titled "Start"\.$/,
    );
    const all = (await state()).interactive_elements;
    expect(
      all.map(({ tag, text: said }: { tag: string; text?: string }) => `${tag} ${said ?? ""}`.trim()),
    ).toEqual([
      "a second page",
      "a third",
      "input",
      "select",
      "input",
      "input",
      "button Send",
      "button Off",
      "div Press",
      "button inner",
      "button in shadow",
    ]);
    expect(all[2]).toMatchObject({ placeholder: "Query", name: "q" });
    expect(all[3]).toMatchObject({ options: ["one", "two"], value: "one" });
    expect(JSON.stringify(all)).not.toContain("hidden");
    const said = await content({ extract_links: true });
    expect(said).toContain("# Hello\n");
    expect(said).toContain("[second page](http://localhost:8000/two)");
    expect(said).toContain("- a\n- b\n```\nx\n  y\n```\n");
    expect(said).toContain("inner\nin shadow");
    expect(said).not.toContain("not shown");
  });

  test("cannot use the browser's debugging protocol, even with its port and path", async () => {
    const [port, path] = (await sh("cat /tmp/browser_test/profile/DevToolsActivePort")).stdout
      .toString()
      .trim()
      .split("\n");
    await open(`/debugger?${port},${path}`);
    await expect.poll(async () => text(await call("list_tabs")), { timeout: 10_000 }).toContain('"done"');
    const said = JSON.parse(/\{.*\}/.exec(await content())![0]) as Record<string, string>;
    // What is sent without a right to read it changes nothing: the list of tabs below tells.
    const harmless = ["blocked", "sent", "opened", "loaded"];
    expect(Object.entries(said).filter(([, result]) => !harmless.includes(result))).toEqual([]);
    expect(
      Object.entries(said)
        .filter(([name]) => name.startsWith("socket"))
        .map(([, result]) => result),
    ).toEqual(Array(5).fill("blocked"));
    const list = (await sh(`curl -sS --noproxy '*' http://127.0.0.1:${port}/json/list`)).stdout.toString();
    // The browser lists its own address bar too.
    const pages = (JSON.parse(list) as { type: string; url: string }[]).filter(({ type }) => type === "page");
    for (const { url } of pages) expect(url).toMatch(/^http:\/\/localhost:8000\/debugger/);
    await closeAll();
  });

  test("is used: filled in, clicked, submitted, left and scrolled", async () => {
    await open("/");
    await call("type", { index: await find("Query"), text: "two words" });
    await call("type", { index: await find("options"), text: "two" });
    await call("type", { index: await find("date"), text: "2026-01-31" });
    await call("click", { index: await find("Press") });
    await call("click", { index: await find("inner") });
    expect(await content()).toMatch(/clicked[\s\S]*inside/);
    expect(text(await call("click", { index: await find("Send") }))).toContain(
      "http://localhost:8000/sent?q=two+words&s=two&p=hidden&d=2026-01-31",
    );
    expect(text(await call("go_back"))).toContain('titled "Start"');
    expect(text(await call("type", { index: await find("Query"), text: "enter\n" }))).toContain(
      "/sent?q=enter&",
    );
    await open("/");
    expect(text(await call("scroll"))).toMatch(
      /^Scrolled down\. The screen shows the pixels 680 to 1480 of \d{4}\.$/,
    );
    expect(text(await call("scroll", { direction: "up" }))).toContain("0 to 800");
    expect(text(await call("scroll", { direction: "up" }))).toMatch(/^Nothing scrolls further up/);
  });

  test("reports invalid element numbers, and elements that cannot be filled in or clicked", async () => {
    await open("/");
    expect(text(await call("click", { index: 0 }))).toContain("call browser_get_state first");
    const off = await find("Off");
    const failed = await call("click", { index: off });
    expect([failed.is_error, text(failed)]).toEqual([true, `Element ${off} is disabled.`]);
    expect(text(await call("click", { index: 99 }))).toContain("numbered 0 to 10");
    expect(text(await call("type", { index: await find("options"), text: "three" }))).toContain(
      'It has: "one", "two"',
    );
    expect(text(await call("type", { index: await find("Send"), text: "x" }))).toContain("takes no text");
    expect(text(await call("type", { index: await find("date"), text: "soon" }))).toContain(
      "did not take that text",
    );
    expect(text(await call("navigate", { url: "javascript:alert(1)" }))).toContain("not javascript:");
    expect(text(await call("navigate", { url: "chrome://settings" }))).toContain("not chrome:");
  });

  test("is shown in a screenshot, which the model gets as an image", async () => {
    await open("/");
    const shown = await call("get_state", { include_screenshot: true });
    const png = Buffer.from(shown.screenshot_data!, "base64");
    expect([png.subarray(1, 4).toString(), png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([
      "PNG",
      1280,
      800,
    ]);
    expect(shown.content.every(({ type }) => type === "text")).toBe(true);
    expect(toolRegistry.readResult(shown).at(-1)).toEqual({
      type: "image",
      image_urls: [`data:image/png;base64,${shown.screenshot_data}`],
      cache_prompt: false,
    });
    await open("/noise");
    const large = await call("get_state", { include_screenshot: true });
    expect(large.screenshot_data!.length).toBeLessThan(1_500_000);
    expect(JSON.stringify(toolRegistry.readResult(large).at(-1))).toContain("data:image/jpeg;base64,");
  });

  test("uploads and downloads files of the sandbox", async () => {
    await sh("echo hello >/tmp/upload.txt");
    await open("/upload");
    await call("type", { index: 0, text: "/tmp/upload.txt" });
    await call("get_state");
    expect(text(await call("type", { index: 0, text: "/tmp/upload.txt" }))).toContain(
      'titled "upload.txt 6"',
    );
    expect(await open("/file")).toMatch(
      /leads to a download[\s\S]*Downloaded a\.bin \(3 bytes\) to \/tmp\/browser_test\/downloads\/a\.bin/,
    );
    expect((await sh("cat /tmp/browser_test/downloads/a.bin")).stdout.toString()).toBe("abc");
  });
});

describe("tabs and storage", () => {
  test("a link opens an active tab; tabs are listed, selected and closed, including the last tab", async () => {
    const [first] = (await open("/")).match(/(?<=tab )[0-9a-f]{4}/)!;
    const clicked = text(await call("click", { index: await find("third") }));
    expect(clicked).toContain('titled "Third"');
    expect(clicked).toContain("The page opened a new tab");
    const tabs = JSON.parse(text(await call("list_tabs")));
    expect(tabs).toHaveLength(2);
    expect(text(await call("switch_tab", { tab_id: first }))).toContain('titled "Start"');
    expect(text(await call("click", { index: await find("second page"), new_tab: true }))).toContain(
      "in a new tab. The active tab",
    );
    expect(text(await call("switch_tab", { tab_id: "none" }))).toContain(
      `There is no tab none. The tabs: [{"tab_id":`,
    );
    await closeAll();
    expect(JSON.parse(text(await call("list_tabs")))).toMatchObject([{ url: "about:blank", active: true }]);
  });

  test("cookies and storage are read and set, for the page's origin and for another origin", async () => {
    await open("/");
    const items = (value: string) => [{ name: "k", value }];
    const storage_state = {
      cookies: [{ name: "c", value: "d", domain: "localhost", path: "/", expires: -1 }],
      origins: [
        { origin: local, localStorage: items("here") },
        { origin: "http://127.0.0.1:8000", localStorage: items("there"), sessionStorage: items("too") },
      ],
    };
    expect((await call("set_storage", { storage_state })).is_error).toBe(false);
    const read = async () => JSON.parse(text(await call("get_storage")));
    expect(await read()).toMatchObject({
      cookies: [{ name: "c", value: "d" }],
      origins: [{ origin: local, localStorage: items("here") }],
    });
    await open("http://127.0.0.1:8000/two");
    expect((await read()).origins[0]).toMatchObject({
      localStorage: items("there"),
      sessionStorage: items("too"),
    });
    expect(text(await call("set_storage", { storage_state: { cookies: "all" } }))).toBe(
      '"cookies" must be a list of objects, 1,000 at most.',
    );
    expect(text(await call("set_storage", { storage_state: { cookies: [{ name: "a" }] } }))).toContain(
      "The browser could not do that",
    );
  });
});
