import type { IncomingHttpHeaders } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import { PlatformError } from "../errors.ts";
import type { Sandboxes } from "../sandboxes/api.ts";
import type { ApiKeys } from "../users/api.ts";
import { decodedPath } from "./urls.ts";

/** Who calls. `sandboxId` is set for a sandbox's session key: then only this sandbox's agent-server surface and files are open. */
export interface Principal {
  userId: string;
  sandboxId?: string;
}

/** `public` needs no key, `user` (the default) a user's API key, `agent` that or a sandbox's session key. */
export type Access = "public" | "user" | "agent";

declare module "fastify" {
  interface FastifyContextConfig {
    access?: Access;
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
}

export function createAuthenticator({ apiKeys, sandboxes }: { apiKeys: ApiKeys; sandboxes: Sandboxes }): Authenticator {
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
  };
}

/** The keys that a request carries in its headers. */
export function credentials(headers: IncomingHttpHeaders): string[] {
  const keys: string[] = [];
  const own = headers["x-session-api-key"];
  if (typeof own === "string" && own !== "") keys.push(own);
  const bearer = headers.authorization === undefined ? null : /^bearer\s+(\S+)\s*$/i.exec(headers.authorization);
  if (bearer) keys.push(bearer[1]!);
  return keys;
}

/**
 * The hook that guards every route: what is not declared public needs a key, unknown paths under `/api` too, so that
 * a caller without a key learns nothing about which paths exist. Throws PlatformError Unauthorized.
 */
export function authHook(authenticator: Authenticator) {
  return (request: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void => {
    const access = request.is404 ? accessOfUnknown(request.url) : (request.routeOptions.config.access ?? "user");
    if (access === "public" || request.method === "OPTIONS") return done();
    const principal = authenticator.byHeaders(request.headers);
    if (!principal || (access === "user" && principal.sandboxId !== undefined)) {
      return done(new PlatformError("Unauthorized", "Unauthorized"));
    }
    request.principal = principal;
    done();
  };
}

function accessOfUnknown(url: string): Access {
  const path = decodedPath(url);
  return path === "/api" || path.startsWith("/api/") ? "agent" : "public";
}
