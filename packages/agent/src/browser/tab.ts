import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import type { NetworkProblem } from "@sandpiper/sandbox/network/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { type CdpConnection, CdpError, type CdpEvent, type CdpSendOptions } from "./cdp.ts";
import { viewport } from "./launch.ts";

const pageScript = readFileSync(new URL("page-script.js", import.meta.url), "utf8");

/** Time-outs in ms. */
export interface BrowserTimeouts {
  /** Until a page begins to load. */
  navigateMs: number;
  /** Until a page has loaded. */
  loadMs: number;
  /** Until a loaded page answers. */
  answerMs: number;
}

export const defaultTimeouts: BrowserTimeouts = { navigateMs: 30_000, loadMs: 10_000, answerMs: 10_000 };

/** Time in which an input makes a page navigate, ms. */
const reactMs = 150;

/** A failed tab operation, as a sentence for the model. */
export class BrowserUseError extends Error {}

export interface TabDeps {
  connection: CdpConnection;
  patience: BrowserTimeouts;
  /** Adds a note to the next result. */
  note(text: string): void;
  /** As in `Sandbox`. */
  watchNetwork?: Sandbox["watchNetwork"];
}

/** An attached page of the browser. */
export class Tab {
  readonly targetId: string;
  /** Four characters by which the model names the tab. */
  readonly id: string;
  /** The page's process crashed or hangs: only a new page helps. */
  dead = false;
  readonly sessionId: string;
  readonly #surroundings: TabDeps;
  #mainFrame: string | undefined;
  loading = false;
  #onLoaded: (() => void)[] = [];

  constructor(target: { targetId: string; id: string; sessionId: string }, surroundings: TabDeps) {
    this.targetId = target.targetId;
    this.id = target.id;
    this.sessionId = target.sessionId;
    this.#surroundings = surroundings;
  }

  /** Attaches to a page. Throws CdpError. */
  static async attach(target: { targetId: string; id: string }, surroundings: TabDeps): Promise<Tab> {
    const { targetId } = target;
    const { sessionId } = await surroundings.connection.send<{ sessionId: string }>("Target.attachToTarget", {
      targetId,
      flatten: true,
    });
    return new Tab({ ...target, sessionId }, surroundings);
  }

  /** Prepares the page; marks a hanging page as dead. */
  async prepare(): Promise<void> {
    const { width, height } = viewport;
    // A dialog from before this connection blocks everything else.
    await this.send("Page.handleJavaScriptDialog", { accept: false }).catch(() => {});
    try {
      await Promise.all([
        this.send("Page.enable"),
        this.send("Emulation.setDeviceMetricsOverride", {
          width,
          height,
          deviceScaleFactor: 1,
          mobile: false,
        }),
        this.send("Page.setInterceptFileChooserDialog", { enabled: true }),
      ]);
      await this.#frame();
    } catch (error) {
      if (!(error instanceof CdpError)) throw error;
      this.dead = true;
    }
  }

  get #patience(): BrowserTimeouts {
    return this.#surroundings.patience;
  }

  /** Throws CdpError, and the signal's reason. */
  send<T = Record<string, unknown>>(
    method: string,
    params: object = {},
    options: Omit<CdpSendOptions, "sessionId"> = {},
  ): Promise<T> {
    const { connection } = this.#surroundings;
    return connection.send<T>(method, params, {
      timeoutMs: this.#patience.answerMs,
      ...options,
      sessionId: this.sessionId,
    });
  }

  /** Handles an event of this page. */
  read({ method, params }: CdpEvent): void {
    switch (method) {
      case "Page.frameNavigated": {
        const frame = params.frame as { id: string; parentId?: string };
        if (frame.parentId === undefined) this.#mainFrame = frame.id;
        return;
      }
      case "Page.frameStartedLoading":
        if (params.frameId === this.#mainFrame) this.loading = true;
        return;
      case "Page.frameStoppedLoading":
        if (params.frameId === this.#mainFrame) this.#loaded();
        return;
      case "Page.javascriptDialogOpening":
        return this.#answerDialog(params as { type: string; message: string });
      case "Inspector.targetCrashed":
        this.dead = true;
        this.#surroundings.note(`The page in tab ${this.id} crashed. Navigate to open another one.`);
        return this.#loaded();
    }
  }

  /** Opens a URL or starts its download. Throws BrowserUseError, and the signal's reason. */
  async navigate(url: string, signal: AbortSignal): Promise<"page" | "download"> {
    let result: { errorText?: string; isDownload?: boolean };
    const endWatch = this.#surroundings.watchNetwork?.() ?? (() => []);
    let problems: NetworkProblem[] = [];
    try {
      result = await this.send("Page.navigate", { url }, { timeoutMs: this.#patience.navigateMs, signal });
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof CdpError) || error.kind === "ended") throw error;
      if (error.kind === "refused") throw new BrowserUseError(`${url} cannot be opened: ${error.message}`);
      await this.send("Page.stopLoading", {}, { timeoutMs: 2_000 }).catch(() => {});
      await this.#revive();
      throw new BrowserUseError(`${url} did not answer within ${this.#patience.navigateMs / 1_000} seconds.`);
    } finally {
      problems = endWatch();
    }
    const { errorText, isDownload } = result;
    if (isDownload) return "download";
    if (errorText)
      throw new BrowserUseError(
        `${url} could not be opened: ${errorText}${getNetworkHint(errorText, url, problems)}`,
      );
    await this.settle(signal);
    return "page";
  }

  /** Waits for a navigation that an input may have caused. */
  async settle(signal: AbortSignal): Promise<void> {
    await delay(reactMs, undefined, { signal });
    if (!this.loading) return;
    const timer = new AbortController();
    const loaded = new Promise<void>((resolve) => this.#onLoaded.push(resolve));
    const late = delay(this.#patience.loadMs, "late", { signal: AbortSignal.any([signal, timer.signal]) });
    try {
      if ((await Promise.race([loaded, late])) === "late")
        this.#surroundings.note("The page is still loading: what is not there yet may come.");
    } finally {
      timer.abort();
      late.catch(() => {});
    }
  }

  /**
   * Calls a page script function, with retries. Throws BrowserUseError, and the signal's reason.
   */
  async page<T>(call: string, signal: AbortSignal, returnByValue = true): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#evaluate<T>(call, signal, returnByValue);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof CdpError) || error.kind === "ended") throw error;
        if (error.kind === "hung") {
          await this.#revive();
          throw new BrowserUseError("The page was busy and did not answer; its script was stopped.");
        }
        if (this.dead) throw new BrowserUseError("The page crashed. Navigate to open another one.");
        if (attempt === 4)
          throw new BrowserUseError(`The page cannot be read: it does not stay as it is (${error.message}).`);
        await delay(attempt * reactMs, undefined, { signal });
      }
    }
  }

  /** Returns the visible page as base64. Throws CdpError, and the signal's reason. */
  async screenshot(
    format: { format: "png" } | { format: "jpeg"; quality: number },
    signal: AbortSignal,
  ): Promise<string> {
    const { data } = await this.send<{ data: string }>(
      "Page.captureScreenshot",
      { ...format, optimizeForSpeed: false },
      { signal },
    );
    return data;
  }

  async #evaluate<T>(call: string, signal: AbortSignal, returnByValue: boolean): Promise<T> {
    const frameId = await this.#frame(signal);
    const world = { frameId, worldName: "sandpiper", grantUniveralAccess: true };
    type World = { executionContextId: number };
    const created = await this.send<World>("Page.createIsolatedWorld", world, { signal });
    const { result, exceptionDetails } = await this.send<Evaluated>(
      "Runtime.evaluate",
      {
        expression: `${pageScript}\nsandpiperPage.${call}`,
        contextId: created.executionContextId,
        returnByValue,
        timeout: this.#patience.answerMs,
        userGesture: true,
      },
      { signal },
    );
    if (exceptionDetails)
      throw new CdpError((exceptionDetails.exception?.description ?? exceptionDetails.text).slice(0, 300));
    return (returnByValue ? result.value : result) as T;
  }

  async #frame(signal?: AbortSignal): Promise<string> {
    type Tree = { frameTree: { frame: { id: string } } };
    const { frameTree } = await this.send<Tree>("Page.getFrameTree", {}, { signal });
    this.#mainFrame = frameTree.frame.id;
    return this.#mainFrame;
  }

  /** Stops the scripts of a hanging page; gives the page up when that does not help. */
  async #revive(): Promise<void> {
    const patience = { timeoutMs: 2_000 };
    // Only answered while a script runs.
    this.send("Runtime.terminateExecution", {}, patience).catch(() => {});
    try {
      await this.send("Page.getFrameTree", {}, patience);
    } catch {
      this.dead = true;
    }
  }

  /** Accepts dialogs, and dismisses prompts for text. */
  #answerDialog({ type, message }: { type: string; message: string }): void {
    const accept = type !== "prompt";
    this.send("Page.handleJavaScriptDialog", { accept }).catch(() => {});
    if (type === "beforeunload") return;
    const shown = String(message).slice(0, 500);
    this.#surroundings.note(
      `The page showed a dialog (${type}), which was ${accept ? "accepted" : "dismissed"}: ${shown}`,
    );
  }

  #loaded(): void {
    this.loading = false;
    const waiting = this.#onLoaded;
    this.#onLoaded = [];
    for (const resolve of waiting) resolve();
  }
}

interface Evaluated {
  result: { value?: unknown; objectId?: string };
  exceptionDetails?: { text: string; exception?: { description?: string } };
}

/** What follows the browser's own word for a failure: the proxy's sentence where it has one. */
function getNetworkHint(error: string, url: string, problems: readonly NetworkProblem[]): string {
  const host = URL.parse(url)?.hostname;
  const problem = problems.find((one) => one.host === host) ?? problems.at(-1);
  if (problem) return `. ${problem.sentence}`;
  if (/ERR_(TUNNEL|PROXY)/.test(error)) return ". The network policy of this sandbox may not allow the host.";
  if (/ERR_(NAME_NOT_RESOLVED|INTERNET_DISCONNECTED|ADDRESS_UNREACHABLE)/.test(error))
    return ". The host does not exist, or this sandbox has no network.";
  if (/ERR_CONNECTION_REFUSED/.test(error)) return ". Nothing listens there.";
  return "";
}
