import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { CdpConnection, type CdpEvent } from "./cdp.ts";
import { type DownloadBegins, type DownloadProgress, Downloads } from "./downloads.ts";
import { endBrowser, type Launched, launchBrowser } from "./launch.ts";
import { type BrowserTimeouts, defaultTimeouts, Tab } from "./tab.ts";
import { maxTabs, type TargetInfo, Targets } from "./targets.ts";

export interface BrowserDeps {
  sandbox: Sandbox;
  /** Connects to a port on the sandbox's loopback address. */
  connect(port: number): Promise<Duplex>;
  /** Folder in the sandbox for the profile and the downloads. */
  dir: string;
  patience?: BrowserTimeouts;
}

/** Idle ms until the connection closes, so that a busy page does not keep the sandbox awake. */
const releaseMs = 30_000;

const maxNotes = 20;

export interface TabInfo {
  id: string;
  url: string;
  title: string;
  active: boolean;
}

/** `asked` holds the requests for which the proxy already received its token. */
type Live = { connection: CdpConnection; launched: Launched; asked: Set<unknown> };

/**
 * A conversation's browser: a process in its sandbox, started on first use. It survives a lost
 * connection and a restart of the server. Calls come one at a time.
 */
export class Browser {
  readonly #place: BrowserDeps;
  readonly #targets = new Targets();
  readonly #tabs = new Map<string, Tab>();
  #live: Live | undefined;
  /** Target of the active tab. */
  #current: string | undefined;
  #follows = false;
  #notes: string[] = [];
  readonly #downloads: Downloads;
  #releaseTimer: NodeJS.Timeout | undefined;
  #launchedOnce = false;

  constructor(place: BrowserDeps) {
    this.#place = place;
    this.#downloads = new Downloads({
      dir: `${place.dir}/downloads`,
      cancel: async (guid) => void (await this.#live?.connection.send("Browser.cancelDownload", { guid })),
      note: (text) => this.#note(text),
    });
  }

  /** Runs `work` and keeps the connection for it and some time after. Throws what `work` throws. */
  async use<T>(work: () => Promise<T>): Promise<T> {
    clearTimeout(this.#releaseTimer);
    try {
      return await work();
    } finally {
      clearTimeout(this.#releaseTimer);
      this.#releaseTimer = setTimeout(() => this.release(), releaseMs).unref();
    }
  }

  /** Runs a user input: a tab that opens meanwhile becomes active. Throws what `work` throws. */
  async following<T>(work: () => Promise<T>): Promise<T> {
    this.#follows = true;
    try {
      return await work();
    } finally {
      this.#follows = false;
    }
  }

  /** Returns the active tab. Throws BrowserUnavailable, and what the sandbox throws. */
  async tab(signal: AbortSignal): Promise<Tab> {
    const { connection } = await this.#connected(signal);
    const known = this.#current === undefined ? undefined : this.#targets.get(this.#current);
    if (known) return this.#attached(known.targetId);
    const last = this.#targets.ids.at(-1);
    if (last !== undefined) return this.#attached(last);
    return this.#newTab(connection);
  }

  /** Opens a tab and makes it active. Throws BrowserUnavailable, and what the sandbox throws. */
  async openTab(signal: AbortSignal): Promise<Tab> {
    const { connection } = await this.#connected(signal);
    if (this.#targets.size >= maxTabs) throw new PlatformError("TooManyTabs", { max: maxTabs });
    return this.#newTab(connection);
  }

  /** Replaces a tab that does not answer. */
  async replaceTab(dead: Tab, signal: AbortSignal): Promise<Tab> {
    const { connection } = await this.#connected(signal);
    const tab = await this.#newTab(connection);
    this.#forget(dead.targetId);
    // The page may block its own close.
    connection.send("Target.closeTarget", { targetId: dead.targetId }).catch(() => {});
    return tab;
  }

  /** Throws BrowserUnavailable, and what the sandbox throws. */
  async tabs(signal: AbortSignal): Promise<TabInfo[]> {
    await this.tab(signal);
    // Events arrive late, so ask. One request per page: URLs may be megabytes, frames are bounded.
    const ask = async (targetId: string) => {
      const { targetInfo } = await this.send<{ targetInfo: TargetInfo }>(
        "Target.getTargetInfo",
        { targetId },
        signal,
      );
      if (this.#targets.has(targetId)) this.#targets.learn(targetInfo);
    };
    await Promise.allSettled(this.#targets.ids.map(ask));
    signal.throwIfAborted();
    return this.#targets.all.map(({ targetId, id, url, title }) => ({
      id,
      url: url.slice(0, 2_000),
      title: title.slice(0, 200),
      active: targetId === this.#current,
    }));
  }

  /** Makes another tab active. Returns undefined for an unknown id. */
  async select(id: string, signal: AbortSignal): Promise<Tab | undefined> {
    const { connection } = await this.#connected(signal);
    const target = this.#targets.named(id);
    if (!target) return undefined;
    await connection.send("Target.activateTarget", { targetId: target.targetId }, { signal });
    return this.#attached(target.targetId);
  }

  /** Closes a tab; the last one is replaced by an empty tab. Returns false for an unknown id. */
  async closeTab(id: string, signal: AbortSignal): Promise<boolean> {
    const { connection } = await this.#connected(signal);
    const target = this.#targets.named(id);
    if (!target) return false;
    // The browser would exit without a page.
    if (this.#targets.size === 1) await this.#newTab(connection);
    await connection.send("Target.closeTarget", { targetId: target.targetId }, { signal });
    this.#forget(target.targetId);
    return true;
  }

  /** Asks the browser itself. Throws CdpError, BrowserUnavailable, and what the sandbox throws. */
  async send<T>(method: string, params: object, signal: AbortSignal): Promise<T> {
    const { connection } = await this.#connected(signal);
    return connection.send<T>(method, params, { signal });
  }

  /** Waits a while for running downloads. */
  downloaded(signal: AbortSignal): Promise<void> {
    return this.#downloads.done(signal);
  }

  /** Returns what happened since the last call. */
  takeNotes(): string[] {
    const notes = this.#notes;
    this.#notes = [];
    return notes;
  }

  /** Closes the connection. The browser stays; the next call finds it. */
  release(): void {
    clearTimeout(this.#releaseTimer);
    this.#live?.connection.close();
    this.#live = undefined;
    this.#tabs.clear();
    this.#targets.clear();
  }

  /** Ends a browser that was used here and removes its files. Never rejects. */
  async end(): Promise<void> {
    this.release();
    if (this.#launchedOnce) await endBrowser(this.#place.sandbox, this.#place.dir).catch(() => {});
  }

  get #patience(): BrowserTimeouts {
    return this.#place.patience ?? defaultTimeouts;
  }

  async #connected(signal: AbortSignal): Promise<Live> {
    if (this.#live?.connection.open) return this.#live;
    const { sandbox, dir } = this.#place;
    const lost = this.#launchedOnce;
    this.release();
    this.#launchedOnce = true;
    let launched = await launchBrowser(sandbox, dir, signal);
    let live = await this.#connect(launched).catch(() => undefined);
    if (!live && launched.found) {
      // It does not answer.
      await endBrowser(sandbox, dir);
      launched = await launchBrowser(sandbox, dir, signal);
      live = await this.#connect(launched).catch(() => undefined);
    }
    if (!live) throw new PlatformError("BrowserSilent");
    if (!launched.found) {
      if (lost)
        this.#note(
          "The browser had ended (it crashed, was killed, or lacked memory): this is a new one, without its pages.",
        );
      this.#current = undefined;
    }
    this.#live = live;
    return live;
  }

  async #connect(launched: Launched): Promise<Live> {
    const { connect } = this.#place;
    const duplex = await connect(launched.port);
    const connection = await CdpConnection.open(
      duplex,
      { ...launched, timeoutMs: this.#patience.answerMs },
      (event) => this.#read(event),
    );
    const live: Live = { connection, launched, asked: new Set() };
    try {
      await connection.send("Browser.setDownloadBehavior", {
        behavior: "allow",
        downloadPath: this.#downloads.dir,
        eventsEnabled: true,
      });
      // Reports the existing pages before it answers.
      await connection.send("Target.setDiscoverTargets", { discover: true, filter: [{ type: "page" }] });
    } catch (error) {
      connection.close();
      throw error;
    }
    return live;
  }

  async #newTab(connection: CdpConnection): Promise<Tab> {
    const { targetId } = await connection.send<{ targetId: string }>("Target.createTarget", {
      url: "about:blank",
    });
    this.#targets.learn({ targetId, type: "page", title: "", url: "about:blank" });
    return this.#attached(targetId);
  }

  async #attached(targetId: string): Promise<Tab> {
    this.#current = targetId;
    const known = this.#tabs.get(targetId);
    if (known) return known;
    const { connection, launched } = this.#live!;
    const { id } = this.#targets.get(targetId)!;
    const note = (text: string) => this.#note(text);
    const { watchNetwork } = this.#place.sandbox;
    const surroundings = {
      connection,
      patience: this.#patience,
      note,
      ...(watchNetwork && { watchNetwork }),
    };
    const tab = await Tab.attach({ targetId, id }, surroundings);
    this.#tabs.set(targetId, tab);
    await tab.prepare();
    // The browser takes the proxy's token only here, and keeps it for all pages.
    if (launched.proxy && this.#live!.asked.size === 0)
      await tab.send("Fetch.enable", { handleAuthRequests: true }).catch(() => {});
    return tab;
  }

  #read(event: CdpEvent): void {
    const { method, params, sessionId } = event;
    if (sessionId !== undefined) {
      const tab = [...this.#tabs.values()].find((one) => one.sessionId === sessionId);
      if (!tab) return;
      return method.startsWith("Fetch.") ? this.#passOn(tab, event) : tab.read(event);
    }
    const info = params.targetInfo as TargetInfo | undefined;
    if (method === "Target.targetCreated" && info) this.#opened(info);
    else if (method === "Target.targetInfoChanged" && info) this.#targets.learn(info);
    else if (method === "Target.targetDestroyed") this.#forget(String(params.targetId));
    else if (method === "Browser.downloadWillBegin") this.#downloads.begins(params as DownloadBegins);
    else if (method === "Browser.downloadProgress") this.#downloads.goesOn(params as DownloadProgress);
  }

  #opened(info: TargetInfo): void {
    if (info.type !== "page" || this.#targets.has(info.targetId)) return;
    if (this.#live && this.#targets.size >= maxTabs) {
      this.#live.connection.send("Target.closeTarget", { targetId: info.targetId }).catch(() => {});
      return this.#note(`A page tried to open more than ${maxTabs} tabs.`);
    }
    this.#targets.learn(info);
    if (!this.#live || info.openerId === undefined) return;
    const follows = this.#follows && info.openerId === this.#current;
    if (follows) this.#current = info.targetId;
    this.#note(
      `The page opened a new tab, ${this.#targets.get(info.targetId)?.id}${follows ? ", which is the active one now" : ""}.`,
    );
  }

  #forget(targetId: string): void {
    this.#targets.delete(targetId);
    this.#tabs.delete(targetId);
    if (this.#current === targetId) this.#current = undefined;
  }

  #passOn(tab: Tab, { method, params }: CdpEvent): void {
    const { requestId } = params;
    if (method === "Fetch.requestPaused")
      return void tab.send("Fetch.continueRequest", { requestId }).catch(() => {});
    if (method !== "Fetch.authRequired") return;
    const { source } = (params.authChallenge ?? {}) as { source?: string };
    const live = this.#live;
    // A proxy that asks twice for one request does not know the token.
    const proxy = source === "Proxy" && !live?.asked.has(requestId) ? live?.launched.proxy : undefined;
    const answer = proxy ? { response: "ProvideCredentials", ...proxy } : { response: "CancelAuth" };
    tab.send("Fetch.continueWithAuth", { requestId, authChallengeResponse: answer }).catch(() => {});
    if (proxy && live && live.asked.size < 1_000) live.asked.add(requestId);
  }

  #note(text: string): void {
    if (this.#notes.length < maxNotes) this.#notes.push(text);
  }
}
