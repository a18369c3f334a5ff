import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CdpConnection, type CdpEvent } from "@sandpiper/agent/browser/cdp";
import { reportWait, until } from "@sandpiper/core/test/support/until";

/** A page in a real Chromium on this machine, with a profile of its own. */
export class Chromium {
  /** What the page reported: errors, refused requests and violations of its policy. */
  readonly problems: string[] = [];
  readonly #process: ChildProcess;
  readonly #profile: string;
  #cdp!: CdpConnection;
  #session!: string;

  private constructor(process: ChildProcess, profile: string) {
    this.#process = process;
    this.#profile = profile;
  }

  static async start(): Promise<Chromium> {
    const profile = await mkdtemp(join(tmpdir(), "sandpiper-chromium-"));
    const process = spawn(
      "chromium",
      [
        ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"],
        ...["--window-size=1400,1000", "--remote-debugging-port=0", `--user-data-dir=${profile}`],
        "about:blank",
      ],
      { stdio: "ignore" },
    );
    const chromium = new Chromium(process, profile);
    const [port, path] = await until(async () => {
      const text = await readFile(join(profile, "DevToolsActivePort"), "utf8").catch(() => "");
      const lines = text.trim().split("\n");
      return lines.length === 2 ? (lines as [string, string]) : undefined;
    });
    const at = { port: Number(port), path, timeoutMs: 60_000 };
    const socket = connect(at.port, "127.0.0.1");
    chromium.#cdp = await CdpConnection.open(socket, at, (event) => chromium.#hear(event));
    await chromium.#attach();
    return chromium;
  }

  async #attach(): Promise<void> {
    const { targetInfos } = await this.#cdp.send<{ targetInfos: { type: string; targetId: string }[] }>(
      "Target.getTargets",
    );
    const { targetId } = targetInfos.find(({ type }) => type === "page")!;
    const attached = await this.#cdp.send<{ sessionId: string }>("Target.attachToTarget", {
      targetId,
      flatten: true,
    });
    this.#session = attached.sessionId;
    for (const domain of ["Page", "Runtime", "Log"]) await this.#send(`${domain}.enable`);
  }

  #send<T = Record<string, unknown>>(method: string, params: object = {}): Promise<T> {
    return this.#cdp.send<T>(method, params, { sessionId: this.#session, timeoutMs: 60_000 });
  }

  #hear({ method, params }: CdpEvent): void {
    if (method === "Log.entryAdded") {
      const { level, text, url } = params.entry as { level: string; text: string; url?: string };
      if (level === "error") this.problems.push(`${text} ${url ?? ""}`);
    } else if (method === "Runtime.exceptionThrown") this.problems.push(JSON.stringify(params));
  }

  async open(url: string): Promise<void> {
    await this.#send("Page.navigate", { url });
  }

  /** The value of an expression in the page; undefined while the page is being replaced. */
  async evaluate<T>(expression: string): Promise<T | undefined> {
    const options = { expression, returnByValue: true, awaitPromise: true };
    const { result } = await this.#send<{ result: { value?: T } }>("Runtime.evaluate", options).catch(() => ({
      result: { value: undefined },
    }));
    return result.value;
  }

  /** Waits until an expression is true in the page. */
  async sees(expression: string): Promise<void> {
    const ask = async () => (await this.evaluate<boolean>(`Boolean(${expression})`)) || undefined;
    await reportWait(expression, () => until(ask, 100));
  }

  /** Waits until the page's text matches. */
  async says(pattern: RegExp): Promise<void> {
    await this.sees(`${pattern}.test(document.body.innerText)`);
  }

  /** Clicks the middle of the first element that the selector finds, once it is there. */
  async click(selector: string): Promise<void> {
    const find = `document.querySelector(${JSON.stringify(selector)})`;
    await this.sees(`${find}?.getClientRects().length`);
    const point = await this.evaluate<{ x: number; y: number }>(
      `(() => { const e = ${find}; e.scrollIntoView({ block: "center" }); const r = e.getBoundingClientRect(); return { x: r.x + r.width / 2, y: r.y + r.height / 2 }; })()`,
    );
    for (const type of ["mousePressed", "mouseReleased"])
      await this.#send("Input.dispatchMouseEvent", { type, ...point, button: "left", clickCount: 1 });
  }

  /** Types into the element that has the focus. */
  async type(text: string): Promise<void> {
    await this.#send("Input.insertText", { text });
  }

  async screenshot(): Promise<Buffer> {
    const { data } = await this.#send<{ data: string }>("Page.captureScreenshot", { format: "png" });
    return Buffer.from(data, "base64");
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    await this.#cdp?.send("Browser.close").catch(() => {});
    const timer = setTimeout(() => this.#process.kill("SIGKILL"), 10_000);
    await ended;
    clearTimeout(timer);
    await rm(this.#profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
