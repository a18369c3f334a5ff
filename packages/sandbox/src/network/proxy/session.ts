import { timingSafeEqual } from "node:crypto";
import { type BlockList, isIP, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { parseRanges } from "@sandpiper/core/outbound/addresses";
import type { Resolve } from "@sandpiper/core/outbound/resolve";
import type { NetworkPolicy } from "../../driver.ts";
import type { Decision, NetworkProblem, ProxiedSandbox, SecretLookup } from "../api.ts";
import { SandboxCredentials } from "../credentials.ts";
import type { DecisionLog } from "../policy/decision-log.ts";
import { findRules } from "../policy/policy.ts";
import { dialForSandbox } from "./dial.ts";
import { Refusal } from "./refusal.ts";
import type { Target } from "./target.ts";
import { UpstreamAgent } from "./upstream-agent.ts";

export interface SessionDeps {
  sandbox: ProxiedSandbox;
  log: DecisionLog;
  resolve: Resolve;
  env: NodeJS.ProcessEnv;
  secrets: SecretLookup | undefined;
  /** Additional trusted certificates (PEM). */
  trusted: string[];
}

/** Connections of a sandbox to the proxy. */
const maxConnections = 256;
/** Connections of the proxy to servers: requests that wait in one connection have one each. */
const maxUpstreams = 512;
/** Sustained requests per second of a sandbox, and the burst before that; more requests wait. */
const requestsPerSecond = 200;
const burst = 400;
const tlsTimeoutMs = 15_000;
/** Problems that one watcher collects. */
const maxProblems = 20;

/** An attached sandbox: its permissions and open connections. */
export class ProxySession {
  readonly id: string;
  readonly policy: NetworkPolicy;
  readonly credentials: SandboxCredentials;
  readonly #plain = new UpstreamAgent((target) => this.dial(target), true);
  readonly #secure = new UpstreamAgent((target) => this.dialTls(target), true);
  readonly #log: DecisionLog;
  readonly #token: Buffer;
  readonly #exempt: BlockList;
  readonly #resolve: Resolve;
  readonly #trusted: string[];
  readonly #clients = new Set<Duplex>();
  readonly #upstreams = new Set<Socket>();
  readonly #watchers = new Set<Map<string, NetworkProblem>>();
  /** Connections to servers that are being made. */
  #dialing = 0;
  #closed = false;
  /** Bytes of ended upstream connections, and the total at the last check. */
  #passed = 0;
  #seen = 0;
  #lastTraffic: number | undefined;
  #nextSlot = Number.NEGATIVE_INFINITY;

  constructor({ sandbox, log, resolve, env, secrets, trusted }: SessionDeps) {
    this.id = sandbox.id;
    this.policy = sandbox.policy;
    this.credentials = new SandboxCredentials(sandbox, env, secrets);
    this.#log = log;
    this.#token = Buffer.from(sandbox.token);
    this.#exempt = parseRanges(sandbox.policy.private ?? []);
    this.#resolve = resolve;
    this.#trusted = trusted;
  }

  /** Accepts a connection from the sandbox; false when it was ended because of the limit. */
  adopt(client: Duplex): boolean {
    client.on("error", () => client.destroy());
    if (this.#closed || this.#clients.size >= maxConnections) {
      client.destroy();
      return false;
    }
    this.#clients.add(client);
    client.once("close", () => this.#clients.delete(client));
    return true;
  }

  /** Applies the rate limit and checks the token. Returns the name with it. Throws Refusal. */
  async admit(authorization: string | undefined): Promise<string> {
    await this.throttle();
    const [, encoded] = /^basic\s+(\S+)$/i.exec(authorization ?? "") ?? [];
    const credential = Buffer.from(encoded ?? "", "base64").toString("utf8");
    const end = credential.indexOf(":");
    const given = Buffer.from(credential.slice(end + 1));
    if (given.length !== this.#token.length || !timingSafeEqual(given, this.#token))
      throw new Refusal(
        407,
        "The proxy needs the token of this sandbox; the variables http_proxy and https_proxy contain it.",
      );
    return credential.slice(0, Math.max(end, 0));
  }

  /** Delays requests above the rate limit. Throws Refusal. */
  async throttle(): Promise<void> {
    const now = performance.now();
    this.#nextSlot =
      Math.max(now - (burst * 1000) / requestsPerSecond, this.#nextSlot) + 1000 / requestsPerSecond;
    if (this.#nextSlot > now) await delay(this.#nextSlot - now);
    if (this.#closed) throw new Refusal(403, "This sandbox no longer has network access.");
  }

  /** Opens a connection to a checked address. Throws Refusal. */
  async dial(target: Target): Promise<Socket> {
    if (this.#upstreams.size + this.#dialing >= maxUpstreams)
      throw new Refusal(
        503,
        `This sandbox has ${maxUpstreams} connections to servers, which is the limit: try again when some have ended.`,
      );
    const isNamed = findRules(this.policy, target).some((rule) => rule.private);
    this.#dialing++;
    const options = { resolve: this.#resolve, exempt: this.#exempt, isNamed };
    const socket = await dialForSandbox(target, options).finally(() => this.#dialing--);
    socket.on("error", () => socket.destroy());
    this.#upstreams.add(socket);
    socket.once("close", () => {
      this.#upstreams.delete(socket);
      this.#passed += socket.bytesRead + socket.bytesWritten;
    });
    if (this.#closed) socket.destroy();
    return socket;
  }

  /** Like `dial`, with verified TLS. */
  async dialTls(target: Target): Promise<TLSSocket> {
    const socket = await this.dial(target);
    const servername = isIP(target.host) ? "" : target.host;
    const ca = this.#trusted.length > 0 ? { ca: this.#trusted } : {};
    const secure = connectTls({ socket, host: target.host, servername, ALPNProtocols: ["http/1.1"], ...ca });
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => fail({ code: "ETIMEDOUT" }), tlsTimeoutMs);
      const fail = ({ code }: { code?: string }) => {
        clearTimeout(timer);
        socket.destroy();
        reject(
          new Refusal(
            502,
            `No secure connection to ${target.host} could be made: its TLS or its certificate is not valid (${code}).`,
          ),
        );
      };
      secure.once("error", fail);
      secure.once("close", () => fail({ code: "ECONNRESET" }));
      secure.once("secureConnect", () => {
        clearTimeout(timer);
        secure.removeAllListeners("close").off("error", fail);
        secure.on("error", () => secure.destroy());
        resolve(secure);
      });
    });
  }

  /** The agent for a request; one that cannot be repeated gets a new connection. */
  agent(secure: boolean, repeatable: boolean): UpstreamAgent {
    if (repeatable) return secure ? this.#secure : this.#plain;
    return new UpstreamAgent((target) => (secure ? this.dialTls(target) : this.dial(target)), false);
  }

  /** Collects each problem once, until the returned function is called. */
  watchProblems(): () => NetworkProblem[] {
    const found = new Map<string, NetworkProblem>();
    this.#watchers.add(found);
    return () => {
      this.#watchers.delete(found);
      return [...found.values()];
    };
  }

  record(decision: Omit<Decision, "seq">): void {
    const { host, reason: sentence, address } = decision;
    const refused = decision.decision === "refused";
    if (sentence !== null && (refused || address === null))
      for (const found of this.#watchers)
        if (found.size < maxProblems) found.set(sentence, { host, refused, sentence });
    this.#log.add({ ...decision, host: decision.host.slice(0, 253), method: decision.method.slice(0, 32) });
  }

  /** When a call last found new traffic, ms since the epoch. */
  lastTraffic(): number | undefined {
    let sum = this.#passed;
    for (const socket of this.#upstreams) sum += socket.bytesRead + socket.bytesWritten;
    if (sum !== this.#seen) this.#lastTraffic = Date.now();
    this.#seen = sum;
    return this.#lastTraffic;
  }

  /** Cuts all connections permanently. */
  close(): void {
    this.#closed = true;
    this.#plain.destroy();
    this.#secure.destroy();
    for (const socket of [...this.#clients, ...this.#upstreams]) socket.destroy();
  }
}
