import type { IncomingHttpHeaders, IncomingMessage } from "node:http";

/** The part of a URL that says it means the agent-server surface of one sandbox: `/agent/<sandbox id>/…`. */
const prefix = /^\/agent\/([\w-]{1,63})(?=[/?]|$)/;

const viewed = new WeakMap<IncomingMessage, string>();

/** The id in a URL under `/agent/<sandbox id>`, and the URL below it. Undefined for every other URL. */
export function splitAgentUrl(url: string): { sandboxId: string; url: string } | undefined {
  const found = prefix.exec(url);
  if (!found) return undefined;
  const rest = url.slice(found[0].length);
  return { sandboxId: found[1]!, url: rest.startsWith("/") ? rest : `/${rest}` };
}

/** Takes the prefix off a request's URL and remembers the sandbox that it names. Fastify calls it before routing. */
export function takePrefix(request: IncomingMessage): string {
  const split = splitAgentUrl(request.url ?? "/");
  if (!split) return request.url ?? "/";
  viewed.set(request, split.sandboxId);
  return split.url;
}

/** The sandbox that the prefix of a request's URL named. */
export function prefixSandbox(request: IncomingMessage): string | undefined {
  return viewed.get(request);
}

/**
 * Tells routes of the platform and of the agent server apart that have one path (`constraints: { view: "agent" }`): under the prefix, and for
 * holders of a session key anywhere, the agent server's answers.
 */
export function viewConstraint(isSession: (headers: IncomingHttpHeaders) => boolean) {
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
      return prefixSandbox(request) !== undefined || isSession(request.headers) ? "agent" : undefined;
    },
  };
}
