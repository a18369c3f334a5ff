import type { IncomingHttpHeaders, IncomingMessage } from "node:http";

/** The prefix of URLs of one sandbox's agent-server surface: `/agent/<sandbox id>/…`. */
const prefix = /^\/agent\/([\w-]{1,63})(?=[/?]|$)/;

const viewed = new WeakMap<IncomingMessage, string>();

/** Splits a URL under `/agent/<sandbox id>`; undefined for other URLs. */
export function splitAgentUrl(url: string): { sandboxId: string; url: string } | undefined {
  const found = prefix.exec(url);
  if (!found) return undefined;
  const rest = url.slice(found[0].length);
  return { sandboxId: found[1]!, url: rest.startsWith("/") ? rest : `/${rest}` };
}

/**
 * Strips the prefix from a request's URL and remembers its sandbox. Fastify calls it before
 * routing.
 */
export function stripPrefix(request: IncomingMessage): string {
  const split = splitAgentUrl(request.url ?? "/");
  if (!split) return request.url ?? "/";
  viewed.set(request, split.sandboxId);
  return split.url;
}

export function getPrefixSandbox(request: IncomingMessage): string | undefined {
  return viewed.get(request);
}

/**
 * Distinguishes platform and agent-server routes of the same path (`constraints: { view: "agent"
 * }`): the agent server responds under the prefix and to session keys.
 */
export function makeViewConstraint(isSession: (headers: IncomingHttpHeaders) => boolean) {
  return {
    name: "view",
    storage() {
      const handlers = new Map<unknown, unknown>();
      return {
        get: (view: unknown) => (handlers.get(view) as never) ?? null,
        set: (view: unknown, handler: unknown) => void handlers.set(view, handler),
      };
    },
    validate(view: unknown) {
      if (view !== "agent") throw new Error(`There is no view ${view}.`);
    },
    deriveConstraint(request: IncomingMessage) {
      return getPrefixSandbox(request) !== undefined || isSession(request.headers) ? "agent" : undefined;
    },
  };
}
