import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Config } from "../../config/config.ts";
import type { ApiKeys, KeyHolder, Logins } from "../../users/api.ts";
import type { SandboxGrant, SandboxGrants } from "../../users/sandbox-grants.ts";
import { isForwarded } from "../forwarding/received.ts";
import { parseLoginTokens } from "../routes/account/login/cookie.ts";
import { isFromOwnPage } from "../routes/account/login/same-origin.ts";
import { getPrefixSandbox } from "../routes/agent-server/view.ts";
import { authenticateWorkspaceCookie } from "../routes/agent-server/workspace-cookie.ts";
import type { ConnectionGuard } from "./connections/connection-guard.ts";
import type { LiveCredentials } from "./connections/live-credentials.ts";
import type { RequestLimit } from "./limits/request-limit.ts";
import type { Principal } from "./principal.ts";
import { makeIsSecure } from "./secure-scheme.ts";
import { decodePath } from "./urls.ts";

/**
 * `public` needs no key, `user` (the default) a user's API key, `agent` a user's key or a sandbox's
 * session key.
 */
export type AccessLevel = "public" | "user" | "agent";

declare module "fastify" {
  interface FastifyContextConfig {
    access?: AccessLevel;
    /** Caches may keep the response, which is the same for everybody. */
    cacheable?: true;
    /**
     * The response grants access beyond reading (a session key, a link): refused to read-only keys.
     */
    grantsAccess?: true;
    /** Accepts the cookie with which browsers load files of workspaces. */
    workspaceCookie?: true;
    /** A page for people: a browser without a login is sent to the login, which leads back. */
    page?: true;
    /** Accepts the key in the query as `session_api_key`, for clients that can set no header. */
    keyInQuery?: true;
  }
  interface FastifyRequest {
    principal: Principal;
  }
}

/** Resolves credentials (app-server.md section 0, agent-server.md section 1). */
export interface Authenticator {
  byKey(key: string): Promise<Principal | undefined>;
  /**
   * Reads `X-Session-API-Key` and `Authorization: Bearer`. A user's key wins over a session key.
   */
  byHeaders(headers: IncomingHttpHeaders): Promise<Principal | undefined>;
  /**
   * Reads the login cookie; call it only for requests without a key. Throws PlatformError
   * CrossOrigin when a page of another site sent the request.
   */
  byCookie(
    request: Pick<IncomingMessage, "method" | "headers" | "socket">,
    upgrading: boolean,
  ): Promise<Principal | undefined>;
  /**
   * Reads the cookie for files of workspaces: a read-only session of its sandbox, which must be
   * `only` if given.
   */
  byWorkspaceCookie(headers: IncomingHttpHeaders, only: string | undefined): Promise<Principal | undefined>;
  /**
   * The caller below `/agent/<sandbox id>`: a session key must belong to that sandbox, and a user
   * becomes its holder. Undefined for the key of another sandbox. Throws PlatformError
   * SandboxNotFound when the user has no such sandbox.
   */
  scopeToSandbox(sandboxId: string, caller: Principal | undefined): Promise<Principal | undefined>;
}

export interface AuthenticatorDeps {
  apiKeys: ApiKeys;
  logins: Logins;
  grants: SandboxGrants;
  sandboxes: Pick<Sandboxes, "get">;
  config: Pick<Config, "publicUrl" | "trustedProxies">;
}

/** The only code that maps keys, session keys and cookies to callers. */
export function createAuthenticator({
  apiKeys,
  logins,
  grants,
  sandboxes,
  config,
}: AuthenticatorDeps): Authenticator {
  const isSecure = makeIsSecure(config);
  const bySession = async (key: string): Promise<Principal | undefined> => {
    const grant = await grants.bySessionKey(key);
    return grant && toPrincipal(grant);
  };
  const withSandbox = async (user: KeyHolder, keys: readonly string[]): Promise<Principal> => {
    const sessions = await Promise.all(keys.map(bySession));
    const beside = sessions.find((session) => session?.userId === user.userId);
    return beside?.sandboxId === undefined ? user : { ...user, besideSandboxId: beside.sandboxId };
  };
  return {
    byKey: async (key) => (await apiKeys.authenticate(key)) ?? bySession(key),
    async byHeaders(headers) {
      const keys = getKeys(headers);
      for (const key of keys) {
        const user = await apiKeys.authenticate(key);
        if (user) return keys.length === 1 ? user : withSandbox(user, keys);
      }
      for (const key of keys) {
        const session = await bySession(key);
        if (session) return session;
      }
      return undefined;
    },
    async byCookie(request, upgrading) {
      const { method = "GET", headers } = request;
      const secure = isSecure(request);
      for (const token of parseLoginTokens(headers.cookie, secure)) {
        const holder = await logins.authenticate(token);
        if (!holder) continue;
        if (isFromOwnPage({ method, headers, publicUrl: config.publicUrl, secure, upgrading })) return holder;
        throw new PlatformError("LoginFromOtherSite");
      }
      return undefined;
    },
    async byWorkspaceCookie({ cookie }, only) {
      const grant = await authenticateWorkspaceCookie(cookie, only, grants);
      return grant && { ...toPrincipal(grant), readOnly: true };
    },
    async scopeToSandbox(sandboxId, caller) {
      if (caller?.sandboxId !== undefined) return caller.sandboxId === sandboxId ? caller : undefined;
      if (!caller) return undefined;
      if (!(await sandboxes.get(caller.userId, sandboxId))) throw new PlatformError("SandboxUnknown");
      return { ...caller, sandboxId };
    },
  };
}

function toPrincipal({ row, source }: SandboxGrant): Principal {
  return { userId: row.userId, sandboxId: row.id, source };
}

/** The keys in a request's headers. */
export function getKeys(headers: IncomingHttpHeaders): string[] {
  const keys: string[] = [];
  const own = headers["x-session-api-key"];
  if (typeof own === "string" && own !== "") keys.push(own);
  const bearer =
    headers.authorization === undefined ? null : /^bearer\s+(\S+)\s*$/i.exec(headers.authorization);
  if (bearer) keys.push(bearer[1]!);
  return keys;
}

/**
 * Guards every route. Routes need a key unless declared public, and so do unknown paths under
 * `/api`, so that a caller without a key cannot probe paths. A read-only key may only read. Throws
 * PlatformError Unauthorized, PathNotFound, ReadOnlyKey, CrossOrigin, TooManyRequests.
 */
export function authHook(guards: RequestGuards) {
  return (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void => {
    // Responses show keys, secrets and work of users; files of workspaces override this.
    if (!request.routeOptions.config.cacheable) reply.header("cache-control", "no-store");
    const refuse = (error: unknown) => {
      if (asksForPage(request) && error instanceof PlatformError && error.status === 401)
        reply
          .code(303)
          .header("location", `${toRoot(request.url)}login?next=${encodeURIComponent(request.url)}`)
          .send();
      else done(error as Error);
    };
    authorizeRequest(request, reply.raw, guards).then(() => done(), refuse);
  };
}

function asksForPage({ method, headers, routeOptions }: FastifyRequest): boolean {
  return routeOptions.config.page === true && method === "GET" && /\btext\/html\b/.test(headers.accept ?? "");
}

/** The way from a path to the server's root, which a proxy may serve below a prefix. */
function toRoot(url: string): string {
  return "../".repeat(url.split("?", 1)[0]!.split("/").length - 2) || "./";
}

interface RequestGuards {
  authenticator: Authenticator;
  limit: RequestLimit;
  connections: ConnectionGuard;
  live: LiveCredentials;
}

async function authorizeRequest(
  request: FastifyRequest,
  response: ServerResponse,
  { authenticator, limit, connections, live }: RequestGuards,
): Promise<void> {
  const { raw } = request;
  const config = request.routeOptions.config;
  const access = request.is404 ? getUnknownPathAccess(request.url) : (config.access ?? "user");
  const open = access === "public" || request.method === "OPTIONS";
  const caller = open ? undefined : await findCaller(request, authenticator);
  if (caller) connections.identify(raw.socket, caller.userId);
  // The first node has counted what another one forwards.
  if (!isForwarded(raw)) limit.count(caller, () => request.ip);
  if (open) return;
  const sandboxId = getPrefixSandbox(raw);
  const principal = sandboxId === undefined ? caller : await authenticator.scopeToSandbox(sandboxId, caller);
  if (!principal) throw new PlatformError("KeyRequired");
  if (access === "user" && principal.sandboxId !== undefined) {
    // A session key opens most paths below a conversation; to it, paths of V0 do not exist.
    const isOfConversation = request.routeOptions.url?.startsWith("/api/conversations/:conversation_id/");
    throw new PlatformError(isOfConversation ? "RouteUnknown" : "KeyRequired");
  }
  if (principal.readOnly && (!isSafe(request.method) || config.grantsAccess)) {
    throw new PlatformError("KeyReadOnly");
  }
  request.principal = principal;
  // The client may have left during the look-up; then nothing is left to end.
  if (response.closed) return;
  response.once(
    "close",
    live.hold(principal.source, () => endTransfer(raw, response)),
  );
}

/**
 * Ends a transfer whose credential has ended. A response that has not begun is sent, for example
 * the one to the request that revoked its own key.
 */
function endTransfer(request: IncomingMessage, response: ServerResponse): void {
  if (response.headersSent || !request.complete) request.destroy();
}

/**
 * The caller that a request's keys or cookie stand for, in any sandbox. Throws PlatformError
 * CrossOrigin.
 */
export async function findCaller(
  request: FastifyRequest,
  authenticator: Authenticator,
): Promise<Principal | undefined> {
  const { raw, query, routeOptions } = request;
  const inQuery = routeOptions.config.keyInQuery && (query as Record<string, unknown>).session_api_key;
  const headers =
    typeof inQuery === "string" && inQuery !== "" ? { "x-session-api-key": inQuery } : request.headers;
  const found = await authenticator.byHeaders(headers);
  if (found || getKeys(headers).length > 0) return found;
  const shown =
    routeOptions.config.workspaceCookie &&
    (await authenticator.byWorkspaceCookie(headers, getPrefixSandbox(raw)));
  return shown || authenticator.byCookie(raw, false);
}

function isSafe(method: string): boolean {
  return method === "GET" || method === "HEAD";
}

function getUnknownPathAccess(url: string): AccessLevel {
  const path = decodePath(url);
  return path === "/api" || path.startsWith("/api/") ? "agent" : "public";
}
