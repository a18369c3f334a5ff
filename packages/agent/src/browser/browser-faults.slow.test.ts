import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import { stub } from "@sandpiper/core/test/support/stub";
import { findBusybox } from "@sandpiper/sandbox/drivers/common/busybox";
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
  sandbox = {
    id,
    incarnation: "1",
    spec,
    shell: driver.shell,
    exec: (command) => driver.exec(id, command),
    watchNetwork: () => proxy.proxy.watchProblems(id),
  };
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

describe("errors become results", () => {
  test("missing, hanging and endlessly redirecting pages are reported", async () => {
    expect(await open("/nothing")).toContain("status 404");
    patience.navigateMs = 1_000;
    expect(await open("/never")).toBe("http://localhost:8000/never did not answer within 1 seconds.");
    Object.assign(patience, usual);
    expect(await open("/redirect")).toContain("ERR_TOO_MANY_REDIRECTS");
    expect(await open("http://localhost:8009")).toContain("Nothing listens there");
    expect(await open("/two")).toContain('titled "Second"');
  });

  test("dialogs are answered, including one that blocks leaving the page", async () => {
    const said = await open("/dialogs");
    expect(said).toContain("dialog (alert), which was accepted: hi");
    expect(said).toContain("dialog (prompt), which was dismissed: name?");
    expect(said).toContain('titled "sure true, name null"');
    await call("click", { index: await find("b") });
    expect(await open("/two")).toContain('titled "Second"');
  });

  test("a busy page is stopped, an endlessly reloading page is reported, and the next page works", async () => {
    Object.assign(patience, { answerMs: 1_000, loadMs: 300 });
    const said = [await open("/loop"), await content()].join("\n");
    expect(said).toContain("The page was busy and did not answer; its script was stopped.");
    await open("/alerts");
    expect(text(await call("get_content"))).toContain("was accepted: again");
    await open("/reload");
    expect(await content()).toMatch(/shows http:.*reload|does not stay as it is|not answer/);
    Object.assign(patience, usual);
    expect(await open("/two")).toContain('titled "Second"');
  });

  test("a page cannot fake its elements with its own objects and names", async () => {
    await open("/clobber");
    expect(JSON.stringify(await state())).toContain('"text":"fine"');
    expect(await content()).toContain("fine");
  });

  test("a flooding page only slows itself", async () => {
    Object.assign(patience, { answerMs: 3_000, loadMs: 300 });
    await open("/flood");
    const lateness: number[] = [];
    let last = performance.now();
    const timer = setInterval(() => {
      lateness.push(performance.now() - last - 10);
      last = performance.now();
    }, 10);
    expect(text(await call("get_state"))).toMatch(/fine|not answer/);
    clearInterval(timer);
    expect(Math.max(...lateness)).toBeLessThan(10_000);
    Object.assign(patience, usual);
    await closeAll();
    await open("/popups");
    const tabs = JSON.parse(text(await call("list_tabs")));
    expect(tabs.length).toBeLessThanOrEqual(20);
    expect(tabs.find(({ active }: { active: boolean }) => active).title).toBe("Popups");
    await closeAll();
    expect(await open("/two")).toContain('titled "Second"');
  });

  test("large pages and long lists are cut, and the rest can be read", async () => {
    await open("/many");
    const many = text(await call("get_state"));
    expect(many.length).toBeLessThanOrEqual(50_000);
    expect(JSON.parse(many).elements_after).toBeGreaterThan(0);
    await open("/large");
    const first = await content();
    expect(first.length).toBeLessThanOrEqual(50_000);
    const from = Number(/start_from_char=(\d+)\.\]$/.exec(first)![1]);
    expect(await content({ start_from_char: from })).toContain(`start_from_char=${from * 2}`);
  });

  test("an interrupt ends a call at once", async () => {
    const abort = new AbortController();
    const pending = call("navigate", { url: `${local}/never` }, abort.signal);
    setTimeout(() => abort.abort(new Error("interrupted")), 100);
    await expect(pending).rejects.toThrow("interrupted");
    expect(await open("/two")).toContain('titled "Second"');
  });

  test("a page's process that crashes, and a browser that is killed", async () => {
    await open("/two");
    const tab = await browser.tab(new AbortController().signal);
    await tab.send("Page.crash", {}, { timeoutMs: 500 }).catch(() => {});
    expect(text(await call("get_content"))).toContain("crashed");
    expect(await open("/two")).toContain('titled "Second"');
    await sh("kill -9 -$(cat /tmp/browser_test/pid)");
    const next = await open("/two");
    expect(next).toMatch(/The next call starts a new one|The browser had ended/);
    expect(await open("/two")).toContain('titled "Second"');
  });
});

describe("the process", () => {
  test("is found again with its pages by the next server, and ends with the conversation", async () => {
    const before = await open("/three");
    browser.release();
    browser = new Browser(place());
    expect(text(await call("list_tabs"))).toContain("Third");
    expect(before).toContain(
      JSON.parse(text(await call("list_tabs"))).find(({ title }: { title: string }) => title === "Third")
        .tab_id,
    );
    await browser.end();
    expect(
      (
        await sh(
          "for i in $(seq 100); do pgrep chromium >/dev/null || break; sleep 0.1; done; ls -d /tmp/browser_test; pgrep chromium",
        )
      ).stdout.toString(),
    ).toBe("");
    expect(await open("/two")).toContain('titled "Second"');
  });

  test("a browser that does not answer is replaced", async () => {
    await open("/two");
    browser.release();
    await sh("kill -STOP -$(cat /tmp/browser_test/pid)");
    patience.answerMs = 1_000;
    const said = await open("/two");
    Object.assign(patience, usual);
    expect(said).toContain('titled "Second"');
  });

  test("a missing browser is reported in one sentence", async () => {
    mkdirSync(`${dir}/root/bin`, { recursive: true });
    copyFileSync(findBusybox()!, `${dir}/root/bin/busybox`);
    symlinkSync("busybox", `${dir}/root/bin/sh`);
    const spec = { ...sandbox.spec, root: { kind: "folder", path: `${dir}/root` } } as const;
    await driver.start({ id: "bare", spec });
    const before = browser;
    browser = new Browser({
      ...place(),
      sandbox: { ...sandbox, id: "bare", spec, exec: (command) => driver.exec("bare", command) },
    });
    const said = await open("/two");
    browser = before;
    await driver.remove("bare");
    expect(said).toBe(
      "There is no browser in this sandbox. Its image needs Chromium or Chrome on the PATH (in Debian the package chromium).",
    );
  });

  test("reaches what the sandbox may reach, through its proxy and with its certificates", async () => {
    expect(await open("http://site.test/two")).toContain('titled "Second"');
    expect(await open("https://tls.test/two")).toContain('titled "Second"');
    expect(await open("http://other.test/")).toContain("status 403");
    expect(await open("https://other.test/")).toContain(
      'ERR_TUNNEL_CONNECTION_FAILED. The network policy of this sandbox allows no connection to other.test:443: it would need a rule for other.test:443, such as "other.test:443" in network.allow.',
    );
    const processes = await sh("tr '\\0' ' ' </proc/$(cat /tmp/browser_test/pid)/cmdline");
    expect(processes.stdout.toString()).not.toContain(egressToken("session key"));
    // The browser sends no request on its own.
    const asked = (await proxy.proxy.decisions(id, { limit: 100 })).map(({ host }) => host);
    expect(new Set(asked)).toEqual(new Set(["site.test", "tls.test", "other.test"]));
  });
});
