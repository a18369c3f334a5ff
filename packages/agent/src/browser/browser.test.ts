import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
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
import { browserTools } from "../tools/browser/index.ts";
import { resolveToolCall } from "../tools/call.ts";
import { toolRegistry } from "../tools/registry.ts";
import type { ToolContext } from "../tools/tool.ts";
import { Browser } from "./browser.ts";

/** A real Chromium in a real sandbox, on a site that listens inside of it, and behind the real proxy. */

const pages: Record<string, string> = {
  "/": `<title>Start</title><h1>Hello</h1><p>Some <b>text</b> with a <a href="/two">second page</a>, a <a href="/three" target="_blank">third</a>
    <form action="/sent"><input name="q" placeholder="Query"><select name="s"><option>one<option>two</select><input type=password name=p value=hidden>
    <input type=date name=d><button>Send</button></form><button disabled>Off</button><div onclick="this.textContent = 'clicked'">Press</div>
    <ul><li>a<li>b</ul><pre>x\n  y</pre><p style="display:none">not shown</p><iframe srcdoc="<button onclick=&quot;this.textContent='inside'&quot;>inner</button>"></iframe>
    <my-part></my-part><script>document.querySelector("my-part").attachShadow({mode: "open"}).innerHTML = "<button>in shadow</button>"</script>
    <div style="height:3000px"></div>the end`,
  "/two": "<title>Second</title>two",
  "/three": "<title>Third</title>three",
  "/dialogs": `<script>alert("hi"); const sure = confirm("sure?"); const name = prompt("name?"); onbeforeunload = (e) => e.preventDefault();
    document.title = "sure " + sure + ", name " + name</script><button>b</button>`,
  "/loop": "<title>Loop</title><script>setTimeout(() => { for (;;); }, 50)</script>hi",
  "/reload": "<script>location.reload()</script>hi",
  "/clobber": `<title>Clobber</title><form><input name="tagName"><input name="firstChild"><input name="getAttribute"><input name="children"></form><img name="createTreeWalker"><img
    name="body"><script>Element.prototype.getAttribute = () => { throw new Error("no") }; Array.prototype.push = () => 0; JSON.stringify = () => "lies";
    globalThis.sandpiperPage = { state: () => "lies" }</script><button>fine</button>`,
  "/flood": `<title>Flood</title><button>fine</button><script>
    setInterval(() => { for (let i = 0; i < 500; i++) { console.log("x".repeat(1000)); document.title = "Flood " + Math.random(); history.replaceState(i, "", "?" + i); } for (let i = 0; i < 50; i++) { const f = document.createElement("iframe"); document.body.append(f); f.remove() } }, 1)</script>`,
  "/alerts": "<title>Alerts</title><script>for (;;) alert('again')</script>",
  "/popups": "<title>Popups</title><script>for (let i = 0; i < 40; i++) open('about:blank#' + i)</script>",
  "/many": `<title>Many</title><script>document.write("<a href=/two>link of some length that takes room in the list</a> ".repeat(4000))</script>`,
  "/noise": `<title>Noise</title><canvas width=1280 height=800 style="position:fixed;left:0;top:0"></canvas><script>const c = document.querySelector("canvas").getContext("2d"); const d = c.createImageData(1280, 800);
    for (let i = 0; i < d.data.length; i += 65536) crypto.getRandomValues(d.data.subarray(i, i + 65536)); for (let i = 3; i < d.data.length; i += 4) d.data[i] = 255; c.putImageData(d, 0, 0)</script>`,
  "/upload": `<input type=file onchange="document.title = this.files[0].name + ' ' + this.files[0].size">`,
};

const site: RequestListener = (request, response) => {
  const path = request.url!.split("?")[0]!;
  if (path === "/never") return;
  if (path === "/redirect") return void response.writeHead(302, { location: "/redirect" }).end();
  if (path === "/file")
    return void response.writeHead(200, { "content-disposition": "attachment; filename=a.bin" }).end("abc");
  response.setHeader("content-type", "text/html");
  if (path === "/sent") return void response.end(`<title>Sent</title>${request.url}`);
  if (path === "/large") {
    response.write("<title>Large</title>");
    for (let i = 0; i < 4; i++) response.write(`<p>${"word ".repeat(200_000)}</p>`);
    return void response.end();
  }
  const page = pages[path];
  if (!page) response.statusCode = 404;
  response.end(page ?? "nothing");
};

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
    spec: { ...spec, env: proxy.proxy.environment(proxied) },
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
  const context = { browser: async () => browser, signal } as unknown as ToolContext;
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
  test("is read: what it says, and what can be done there, frames and shadow trees too", async () => {
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

  test("is used: filled in, clicked, sent, left, and scrolled", async () => {
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

  test("says what is wrong with a number, and where something cannot be filled in or clicked", async () => {
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

  test("is shown in a picture, which the model gets as one", async () => {
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

  test("takes a file of the sandbox, and gives one", async () => {
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
  test("a link opens a tab that is active then; tabs are listed, chosen and closed, the last one too", async () => {
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

  test("cookies and stores are given and set, for the page's origin and for another one", async () => {
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

describe("what goes wrong is a result", () => {
  test("pages that are not there, never come, or lead in circles", async () => {
    expect(await open("/nothing")).toContain("status 404");
    patience.navigateMs = 1_000;
    expect(await open("/never")).toBe("http://localhost:8000/never did not answer within 1 seconds.");
    Object.assign(patience, usual);
    expect(await open("/redirect")).toContain("ERR_TOO_MANY_REDIRECTS");
    expect(await open("http://localhost:8009")).toContain("Nothing listens there");
    expect(await open("/two")).toContain('titled "Second"');
  });

  test("dialogs are answered, also one that wants to keep the page", async () => {
    const said = await open("/dialogs");
    expect(said).toContain("dialog (alert), which was accepted: hi");
    expect(said).toContain("dialog (prompt), which was dismissed: name?");
    expect(said).toContain('titled "sure true, name null"');
    await call("click", { index: await find("b") });
    expect(await open("/two")).toContain('titled "Second"');
  });

  test("a page that is always busy is stopped, one that reloads for ever is told, and the next page works", async () => {
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

  test("a page cannot lie about its elements by its own objects and names", async () => {
    await open("/clobber");
    expect(JSON.stringify(await state())).toContain('"text":"fine"');
    expect(await content()).toContain("fine");
  });

  test("a page that floods everything is slow, and nobody else", async () => {
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

  test("large pages and long lists are bounded, and the rest can be had", async () => {
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

  test("one that answers nothing is replaced", async () => {
    await open("/two");
    browser.release();
    await sh("kill -STOP -$(cat /tmp/browser_test/pid)");
    patience.answerMs = 1_000;
    const said = await open("/two");
    Object.assign(patience, usual);
    expect(said).toContain('titled "Second"');
  });

  test("is missed in one sentence where the image has none", async () => {
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

  test("reaches what the sandbox may, by its proxy and with its certificates", async () => {
    expect(await open("http://site.test/two")).toContain('titled "Second"');
    expect(await open("https://tls.test/two")).toContain('titled "Second"');
    expect(await open("http://other.test/")).toContain("status 403");
    expect(await open("https://other.test/")).toContain("may not allow the host");
    const processes = await sh("tr '\\0' ' ' </proc/$(cat /tmp/browser_test/pid)/cmdline");
    expect(processes.stdout.toString()).not.toContain(egressToken("session key"));
    // The browser asks for nothing by itself.
    const asked = (await proxy.proxy.decisions(id, { limit: 100 })).map(({ host }) => host);
    expect(new Set(asked)).toEqual(new Set(["site.test", "tls.test", "other.test"]));
  });
});
