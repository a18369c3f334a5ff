import type { IncomingHttpHeaders } from "node:http";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { ApiKeys, Logins } from "../../users/api.ts";
import { loginTokens } from "../routes/account/login/cookie.ts";
import { fromOwnPage } from "../routes/account/login/same-origin.ts";
import { prefixSandbox } from "../routes/agent-server/view.ts";
import { workspaceSandbox } from "../routes/agent-server/workspace-cookie.ts";
import type { RequestLimit } from "./limits/request-limit.ts";
import type { Principal } from "./principal.ts";
import { decodedPath } from "./urls.ts";

/** `public` needs no key, `user` (the default) a user's API key, `agent` that or a sandbox's session key. */
export type Access = "public" | "user" | "agent";

declare module "fastify" {
  interface FastifyContextConfig {
    access?: Access;
    /** What a reading request to this route answers opens more than reading: a read-only key is refused. */
    opensMore?: true;
    /** The cookie that lets browsers show files of workspaces counts here. */
    workspaceCookie?: true;
    /** The key may stand in the query, as `session_api_key`: for clients that can set no header. */
    keyInQuery?: true;
  }
  interface FastifyRequest {
    principal: Principal;
  }
}

/** Resolves credentials (app-server.md section 0, agent-server.md section 1). */
export interface Authenticator {
  byKey(key: string): Principal | undefined;
  /** Reads `X-Session-API-Key` and `Authorization: Bearer`; the first that is a user's key wins, then a session key. */
  byHeaders(headers: IncomingHttpHeaders): Principal | undefined;
  /** Reads the login cookie, which counts only for requests without any key. Throws PlatformError CrossOrigin when another site's page makes use of it. */
  byCookie(
    request: { method?: string | undefined; headers: IncomingHttpHeaders },
    upgrading: boolean,
  ): Principal | undefined;
  /** Reads the cookie for the files of workspaces: it stands for the holder of that sandbox (`only` this one, where one is named), and only to read. */
  byWorkspaceCookie(headers: IncomingHttpHeaders, only: string | undefined): Principal | undefined;
  /**
   * The caller as the agent-server surface of one sandbox sees them: a session key has to be that sandbox's, a user becomes its holder.
   * Undefined for another sandbox's key. Throws PlatformError SandboxNotFound where the user has no such sandbox.
   */
  within(sandboxId: string, caller: Principal | undefined): Principal | undefined;
}

export interface AuthenticatorServices {
  apiKeys: ApiKeys;
  logins: Logins;
  sandboxes: Sandboxes;
  config: { publicUrl: string | undefined };
}

/** The one place that tells who a key, a session key or a cookie stands for. */
export function createAuthenticator({
  apiKeys,
  logins,
  sandboxes,
  config,
}: AuthenticatorServices): Authenticator {
  const bySession = (key: string): Principal | undefined => {
    const row = sandboxes.bySessionKey(key);
    return row && { userId: row.userId, sandboxId: row.id };
  };
  return {
    byKey: (key) => apiKeys.authenticate(key) ?? bySession(key),
    byHeaders(headers) {
      const keys = credentials(headers);
      for (const key of keys) {
        const user = apiKeys.authenticate(key);
        if (user) return user;
      }
      for (const key of keys) {
        const session = bySession(key);
        if (session) return session;
      }
      return undefined;
    },
    byCookie({ method = "GET", headers }, upgrading) {
      for (const token of loginTokens(headers.cookie)) {
        const holder = logins.authenticate(token);
        if (!holder) continue;
        if (fromOwnPage({ method, headers, publicUrl: config.publicUrl, upgrading })) return holder;
        throw new PlatformError(
          "CrossOrigin",
          "The login counts only for pages of this server: send a key from elsewhere.",
        );
      }
      return undefined;
    },
    byWorkspaceCookie({ cookie }, only) {
      const row = workspaceSandbox(cookie, only, sandboxes);
      return row && { userId: row.userId, sandboxId: row.id, readOnly: true };
    },
    within(sandboxId, caller) {
      if (caller?.sandboxId !== undefined) return caller.sandboxId === sandboxId ? caller : undefined;
      if (!caller) return undefined;
      if (!sandboxes.get(caller.userId, sandboxId))
        throw new PlatformError("SandboxNotFound", "Sandbox not found");
      return { ...caller, sandboxId };
    },
  };
}

/** The keys that a request carries in its headers. */
export function credentials(headers: IncomingHttpHeaders): string[] {
  const keys: string[] = [];
  const own = headers["x-session-api-key"];
  if (typeof own === "string" && own !== "") keys.push(own);
  const bearer =
    headers.authorization === undefined ? null : /^bearer\s+(\S+)\s*$/i.exec(headers.authorization);
  if (bearer) keys.push(bearer[1]!);
  return keys;
}

/**
 * The hook that guards every route: what is not declared public needs a key, unknown paths under `/api` too, so that
 * a caller without a key learns nothing about which paths exist. A read-only key opens only what changes nothing.
 * Throws PlatformError Unauthorized, ReadOnlyKey, CrossOrigin, TooManyRequests.
 */
export function authHook(authenticator: Authenticator, limit: RequestLimit) {
  return (request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void => {
    try {
      guard(request, authenticator, limit);
      done();
    } catch (error) {
      done(error as Error);
    }
  };
}

function guard(request: FastifyRequest, authenticator: Authenticator, limit: RequestLimit): void {
  const { raw } = request;
  const config = request.routeOptions.config;
  const access = request.is404 ? accessOfUnknown(request.url) : (config.access ?? "user");
  const open = access === "public" || request.method === "OPTIONS";
  const caller = open ? undefined : findCaller(request, authenticator);
  limit.count(caller, () => request.ip);
  if (open) return;
  const sandboxId = prefixSandbox(raw);
  const principal = sandboxId === undefined ? caller : authenticator.within(sandboxId, caller);
  if (!principal || (access === "user" && principal.sandboxId !== undefined)) {
    throw new PlatformError("Unauthorized", "Unauthorized");
  }
  if (principal.readOnly && (!isSafe(request.method) || config.opensMore)) {
    throw new PlatformError("ReadOnlyKey", "This key is read-only: it may read, and change nothing.");
  }
  request.principal = principal;
}

/** Whom the keys or the cookie of a request stand for now, in whatever sandbox. Throws PlatformError CrossOrigin. */
export function findCaller(request: FastifyRequest, authenticator: Authenticator): Principal | undefined {
  const { raw, query, routeOptions } = request;
  const inQuery = routeOptions.config.keyInQuery && (query as Record<string, unknown>).session_api_key;
  const headers =
    typeof inQuery === "string" && inQuery !== "" ? { "x-session-api-key": inQuery } : request.headers;
  const found = authenticator.byHeaders(headers);
  if (found || credentials(headers).length > 0) return found;
  const shown =
    routeOptions.config.workspaceCookie && authenticator.byWorkspaceCookie(headers, prefixSandbox(raw));
  return shown || authenticator.byCookie(raw, false);
}

function isSafe(method: string): boolean {
  return method === "GET" || method === "HEAD";
}

function accessOfUnknown(url: string): Access {
  const path = decodedPath(url);
  return path === "/api" || path.startsWith("/api/") ? "agent" : "public";
}
