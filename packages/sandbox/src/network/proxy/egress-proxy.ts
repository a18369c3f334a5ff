import { mkdir, readdir } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { getCACertificates, TLSSocket } from "node:tls";
import type { Logger } from "@sandpiper/core/log/logger";
import { type Resolve, systemResolve } from "@sandpiper/core/outbound/resolve";
import type { KnownIds, NetworkPolicy, SandboxFile } from "../../driver.ts";
import type { Decision, Egress, Listen, NetworkProblem, ProxiedSandbox, SecretLookup } from "../api.ts";
import { toPlaceholders, toValues } from "../credentials.ts";
import {
  browserPolicyFiles,
  caBundleFile,
  caFile,
  proxyEnvironment,
  proxyPort,
  trustingEnvironment,
  untrustingUser,
} from "../environment.ts";
import { DecisionLog } from "../policy/decision-log.ts";
import { judgeTarget, needsTermination } from "../policy/policy.ts";
import type { SandboxSecret } from "../sandbox-secret.ts";
import { CertificateAuthority } from "../tls/certificate-authority.ts";
import { Exchange, toRefusal } from "./exchange.ts";
import { forwardRequest, forwardUpgrade, idleMs, type ProxyRoute, refuse, refuseRaw } from "./forward.ts";
import { findTarget, type Redirect } from "./redirect.ts";
import { Refusal } from "./refusal.ts";
import { ProxySession } from "./session.ts";
import { parseAuthority, parseProxyUrl, type Target, toAuthority } from "./target.ts";
import { type Inspector, tunnel } from "./tunnel.ts";

export interface EgressProxyOptions {
  /** Folder for the authority's key and the logs; created if missing. */
  dir: string;
  /** Secret of the certificate authority of several servers; undefined: the folder has a key. */
  authoritySecret?: Uint8Array | undefined;
  logger: Logger;
  /** Has the secrets of credential rules. */
  env?: NodeJS.ProcessEnv;
  /** Secrets of users. */
  secrets?: SecretLookup;
  resolve?: Resolve;
  /** Files of every sandbox that has a network. */
  files?: readonly SandboxFile[];
  redirects?: readonly Redirect[];
  /** Additional trusted certificates of servers (PEM). */
  trusted?: string[];
}

/** The origin of a connection to the HTTP parser. */
interface Origin {
  session: ProxySession;
  /** Set inside a tunnel: the target of all requests. */
  tunnel: { target: Target; secure: boolean } | undefined;
  openRequests: number;
}

/** Limit of pipelined requests in memory; apt sends ten. */
const maxPipelined = 12;
const maxHeaderBytes = 16_384;

/** The egress proxy of all sandboxes. Each sandbox reaches it by a listener in its own network. */
export class EgressProxy implements Egress, Inspector {
  readonly #options: EgressProxyOptions;
  readonly #authority: CertificateAuthority;
  readonly #resolve: Resolve;
  readonly #sessions = new Map<string, { session: ProxySession; listener: { close(): void } | undefined }>();
  readonly #logs = new Map<string, DecisionLog>();
  readonly #origins = new WeakMap<Duplex, Origin>();
  readonly #server: Server;
  #bundle: string | undefined;

  private constructor(options: EgressProxyOptions, authority: CertificateAuthority) {
    this.#options = options;
    this.#authority = authority;
    this.#resolve = options.resolve ?? systemResolve();
    this.#server = this.#httpServer();
  }

  /** Throws ConfigInvalid when the key file is damaged or open to others. */
  static async open(options: EgressProxyOptions): Promise<EgressProxy> {
    await mkdir(join(options.dir, "decisions"), { recursive: true, mode: 0o700 });
    const { dir, authoritySecret } = options;
    const authority = authoritySecret
      ? CertificateAuthority.derive(authoritySecret)
      : await CertificateAuthority.open(join(dir, "authority.pem"));
    return new EgressProxy(options, authority);
  }

  async environment(sandbox: ProxiedSandbox): Promise<Record<string, string>> {
    const secrets = await this.#secretsOf(sandbox);
    return { ...proxyEnvironment(sandbox), ...this.#placeholders(sandbox, secrets) };
  }

  async secretEnvironment(sandbox: ProxiedSandbox): Promise<Record<string, string>> {
    const { secrets: lookup } = this.#options;
    const { id, userId } = sandbox;
    const secrets = await this.#secretsOf(sandbox);
    const plain = secrets.filter((secret) => secret.plain);
    // As with all secrets, those of a sandbox that gets none now stay placeholders.
    const isGiven = plain.length > 0 && (await lookup!.withheld(userId!, id)) === undefined;
    return { ...this.#placeholders(sandbox, secrets), ...(isGiven && toValues(plain)) };
  }

  #placeholders(sandbox: ProxiedSandbox, secrets: readonly SandboxSecret[]): Record<string, string> {
    if (sandbox.policy.mode === "none" || secrets.length === 0) return {};
    return { ...trustingEnvironment(sandbox.token), ...toPlaceholders(secrets, sandbox.token) };
  }

  async #secretsOf({ id, policy, userId }: ProxiedSandbox): Promise<readonly SandboxSecret[]> {
    const { secrets } = this.#options;
    return secrets && policy.userSecrets && userId !== undefined ? secrets.forSandbox(userId, id) : [];
  }

  startPolicy({ policy, userId }: ProxiedSandbox): NetworkPolicy {
    const { secrets } = this.#options;
    if (policy.mode === "none" || policy.userSecrets || userId === undefined || !secrets) return policy;
    return { ...policy, userSecrets: true };
  }

  files({ policy }: Pick<ProxiedSandbox, "policy">): SandboxFile[] {
    const common = policy.mode === "none" ? [] : (this.#options.files ?? []);
    if (!needsTermination(policy)) return [...common];
    const { certificate } = this.#authority;
    this.#bundle ??= [
      certificate,
      ...new Set([...getCACertificates("system"), ...getCACertificates("default")]),
    ].join("\n");
    return [
      ...common,
      { path: caFile, content: `${certificate}\n` },
      { path: caBundleFile, content: `${this.#bundle}\n` },
      ...browserPolicyFiles.map((path) => ({ path, content: browserPolicy(certificate) })),
    ];
  }

  async attach(sandbox: ProxiedSandbox, listen: Listen): Promise<void> {
    this.detach(sandbox.id);
    if (sandbox.policy.mode === "none") return;
    const log = await this.#renewLog(sandbox.id);
    const { env = process.env, secrets, trusted = [] } = this.#options;
    const session = new ProxySession({ sandbox, log, resolve: this.#resolve, env, secrets, trusted });
    const entry: { session: ProxySession; listener: { close(): void } | undefined } = {
      session,
      listener: undefined,
    };
    this.#sessions.set(sandbox.id, entry);
    try {
      const listener = await listen(proxyPort, (connection) => this.#accept(session, connection));
      if (this.#sessions.get(sandbox.id) === entry) entry.listener = listener;
      else listener.close();
    } catch (error) {
      if (this.#sessions.get(sandbox.id) === entry) this.detach(sandbox.id);
      throw error;
    }
  }

  detach(id: string): void {
    const entry = this.#sessions.get(id);
    this.#sessions.delete(id);
    entry?.listener?.close();
    entry?.session.close();
  }

  async forget(id: string): Promise<void> {
    this.detach(id);
    const log = this.#getLog(id);
    this.#logs.delete(id);
    await log.remove();
  }

  async reap(known: Pick<KnownIds, "sandboxes" | "refresh">): Promise<void> {
    const ids = (await readdir(join(this.#options.dir, "decisions"))).map((name) =>
      name.replace(/\.jsonl(\.old)?$/, ""),
    );
    await known.refresh?.();
    for (const id of new Set(ids)) if (!known.sandboxes.has(id)) await this.forget(id);
  }

  watchProblems(id: string): () => NetworkProblem[] {
    return this.#sessions.get(id)?.session.watchProblems() ?? (() => []);
  }

  lastTraffic(id: string): number | undefined {
    return this.#sessions.get(id)?.session.lastTraffic();
  }

  decisions(id: string, page: { limit: number; before?: number | undefined }): Promise<Decision[]> {
    return this.#getLog(id).read(page);
  }

  async close(): Promise<void> {
    for (const id of [...this.#sessions.keys()]) this.detach(id);
    await Promise.all([...this.#logs.values()].map((log) => log.flush()));
  }

  plain(client: Duplex, target: Target): void {
    const { session } = this.#origins.get(client)!;
    this.#origins.set(client, { session, tunnel: { target, secure: false }, openRequests: 0 });
    this.#server.emit("connection", client);
  }

  tls(client: Duplex, target: Target): void {
    const { session } = this.#origins.get(client)!;
    const secureContext = this.#authority.contextFor(target.host);
    if (client.destroyed) return;
    const secure = new TLSSocket(client as Socket, {
      isServer: true,
      secureContext,
      ALPNProtocols: ["http/1.1"],
    });
    const exchange = new Exchange(session, "CONNECT", target);
    const failed = (error?: NodeJS.ErrnoException) => {
      const reason = `The sandbox's program does not trust the proxy's certificate, or closed the connection (${error?.code ?? "closed"}): see the certificate variables.`;
      exchange.end(reason, "refused");
      secure.destroy();
    };
    secure.once("error", failed).once("close", failed);
    secure.once("secure", () => {
      secure.off("close", failed).off("error", failed);
      secure.on("error", () => secure.destroy());
      this.#origins.set(secure, { session, tunnel: { target, secure: true }, openRequests: 0 });
      this.#server.emit("connection", secure);
    });
  }

  #accept(session: ProxySession, connection: Duplex): void {
    if (!session.adopt(connection)) return;
    this.#origins.set(connection, { session, tunnel: undefined, openRequests: 0 });
    this.#server.emit("connection", connection);
  }

  /** Parses the requests of all sandboxes; does not listen itself. */
  #httpServer(): Server {
    const server = createServer({
      maxHeaderSize: maxHeaderBytes,
      requestTimeout: 0,
      keepAliveTimeout: 60_000,
      shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === "websocket",
    });
    server.timeout = idleMs;
    server.on("request", (request, response) => void this.#serve(request, response));
    server.on("upgrade", (request, client, head) => void this.#upgrade(request, client, head));
    server.on("connect", (request, client, head) => void this.#connect(request, client, head));
    server.on("clientError", (error: NodeJS.ErrnoException, client) => {
      if (client.destroyed || !client.writable) return;
      refuseRaw(
        client,
        new Refusal(error.code === "HPE_HEADER_OVERFLOW" ? 431 : 400, "The request is not valid HTTP."),
      );
    });
    return server;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const origin = this.#origins.get(request.socket)!;
    response.on("error", () => {});
    if (++origin.openRequests > maxPipelined) return void request.socket.destroy();
    response.once("close", () => origin.openRequests--);
    try {
      await forwardRequest(await this.#route(origin, request), request, response);
    } catch (error) {
      refuse(response, this.#refused(origin, request, error), !request.complete);
    }
  }

  async #upgrade(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    const origin = this.#origins.get(client)!;
    client.on("error", () => client.destroy());
    try {
      await forwardUpgrade(await this.#route(origin, request), request, client, head);
    } catch (error) {
      refuseRaw(client, this.#refused(origin, request, error));
    }
  }

  async #connect(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    const origin = this.#origins.get(client)!;
    client.on("error", () => client.destroy());
    try {
      if (origin.tunnel) throw new Refusal(405, "CONNECT is not possible inside a tunnel.");
      const user = await origin.session.admit(request.headers["proxy-authorization"]);
      const target = parseAuthority(request.url ?? "");
      if (!target) throw new Refusal(400, "CONNECT needs a host and a port.");
      if (head.length > 0) client.unshift(head);
      await tunnel({ session: origin.session, trusts: user !== untrustingUser }, target, client, this);
    } catch (error) {
      refuseRaw(client, this.#refused(origin, request, error));
    }
  }

  /** The target of a request, if it is allowed. Throws Refusal. */
  async #route({ session, tunnel: inside }: Origin, request: IncomingMessage): Promise<ProxyRoute> {
    const url = request.url ?? "";
    if (inside) {
      await session.throttle();
      const host = parseAuthority(getHost(request, inside.secure ? 443 : 80));
      if (!url.startsWith("/") && url !== "*")
        throw new Refusal(400, "A request inside a tunnel must name only a path.");
      if (host?.host !== inside.target.host || host.port !== inside.target.port)
        throw new Refusal(
          421,
          `This tunnel leads to ${toAuthority(inside.target)}; open another tunnel for another host.`,
        );
      return { session, ...inside, path: url };
    }
    await session.admit(request.headers["proxy-authorization"]);
    const found = findTarget(url, this.#options.redirects ?? []);
    if (!found)
      throw new Refusal(400, "This is a proxy: use full http:// URLs, and CONNECT for everything else.");
    const { path, secure, ...target } = found;
    const { refusal } = judgeTarget(session.policy, target);
    if (refusal) throw new Refusal(403, refusal);
    return { session, target, path, secure };
  }

  /** Logs a failed request and returns its response. */
  #refused(origin: Origin, request: IncomingMessage, error: unknown): Refusal {
    const refusal = toRefusal(error);
    // Many programs send a first request without the token.
    if (refusal.status === 407 && !request.headers["proxy-authorization"]) return refusal;
    const target =
      origin.tunnel?.target ?? parseProxyUrl(request.url ?? "") ?? parseAuthority(request.url ?? "");
    const { host, port } = target ?? { host: "", port: 0 };
    new Exchange(origin.session, request.method!, { host, port }).end(refusal.message, "refused");
    return refusal;
  }

  /** Reads the log again, because another process may have written to the log. */
  async #renewLog(id: string): Promise<DecisionLog> {
    await this.#logs.get(id)?.flush();
    this.#logs.delete(id);
    const log = this.#getLog(id);
    await log.ready();
    return log;
  }

  #getLog(id: string): DecisionLog {
    const known = this.#logs.get(id);
    if (known) return known;
    const log = new DecisionLog(join(this.#options.dir, "decisions", `${id}.jsonl`), this.#options.logger);
    this.#logs.set(id, log);
    return log;
  }
}

/** Makes a browser trust a certificate (PEM). */
function browserPolicy(certificate: string): string {
  return `${JSON.stringify({ CACertificates: [certificate.replace(/-----[^-]+-----|\s/g, "")] })}\n`;
}

/** The `Host` header with a port. */
function getHost(request: IncomingMessage, defaultPort: number): string {
  const host = request.headers.host ?? "";
  return /:\d+$/.test(host) && !host.endsWith("]") ? host : `${host}:${defaultPort}`;
}
