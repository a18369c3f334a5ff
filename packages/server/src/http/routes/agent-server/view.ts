import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { App } from "../../server/services.ts";

type ViewConstraint = Parameters<App["addConstraintStrategy"]>[0];
type Handler = Parameters<ReturnType<ViewConstraint["storage"]>["set"]>[1];
type Derive = ViewConstraint["deriveConstraint"];

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
export function makeViewConstraint(
  isSession: (headers: IncomingHttpHeaders) => Promise<boolean>,
): ViewConstraint {
  const derive = (
    request: IncomingMessage,
    _context: unknown,
    done: (error: Error | null, view?: string) => void,
  ): void => {
    if (getPrefixSandbox(request) !== undefined) return done(null, "agent");
    isSession(request.headers).then(
      (session) => done(null, session ? "agent" : undefined),
      // The guard of the route asks again, and its error is answered.
      () => done(null),
    );
  };
  return {
    name: "view",
    storage() {
      const handlers = new Map<unknown, Handler>();
      return {
        get: (view) => handlers.get(view) ?? null,
        set: (view, handler) => void handlers.set(view, handler),
      };
    },
    validate(view) {
      if (view !== "agent") throw new Error(`There is no view ${view}.`);
    },
    // The router recognises this form by its three parameters; its types do not have it.
    deriveConstraint: derive as unknown as Derive,
  };
}
