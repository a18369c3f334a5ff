import type { FastifyContextConfig, FastifyRequest } from "fastify";

/** What a request is about; the texts come unchecked from the client. */
export type Subject =
  | { sandbox: string }
  /** A conversation, also one whose start has not stored it yet. */
  | { conversation: string }
  /** A start task. */
  | { task: string };

/**
 * How to find the sandbox that the requests of a route concern, when they are not limited to one
 * sandbox by their key or prefix. `any node`: a request concerns none, or only what is stored.
 */
export type Concern =
  | "any node"
  | {
      /** It reads the body. */
      isInBody?: true;
      subject(request: FastifyRequest): Subject | undefined;
    };

declare module "fastify" {
  interface FastifyContextConfig {
    /**
     * Which sandbox a request concerns, because the node that owns it must answer. Needed where the
     * names in path and query do not say it.
     */
    concerns?: Concern;
  }
}

/** The part of a route's registration that says what its requests concern. */
export interface ConcerningRoute {
  url: string;
  config?: FastifyContextConfig | undefined;
  schema?: { querystring?: unknown } | undefined;
}

const none: Concern = { subject: () => undefined };
const byConversation = ofRequest(({ params }) => conversation(param(params, "conversation_id")));
const bySandbox = ofRequest(({ params }) => sandbox(param(params, "sandbox_id")));
const bySandboxOfQuery = ofRequest(({ params, query }) =>
  sandbox(param(query, "sandbox_id") ?? param(params, "sandbox_id")),
);
/** A session key beside a user's key wins over the query, as in `requireAgentSandbox`. */
const byQuery = ofRequest(({ principal, query }) =>
  sandbox(principal.besideSandboxId ?? param(query, "sandbox_id")),
);

/** What the requests of a route concern: its own rule, or the one that the names in it imply. */
export function concernOf({ url, config, schema }: ConcerningRoute): Concern {
  if (config?.concerns) return config.concerns;
  if (url.includes("/:conversation_id")) return byConversation;
  const query = (schema?.querystring as { properties?: object } | undefined)?.properties ?? {};
  if (url.includes("/:sandbox_id")) return "sandbox_id" in query ? bySandboxOfQuery : bySandbox;
  return "sandbox_id" in query ? byQuery : none;
}

/** A rule that reads path, query and headers. */
export function ofRequest(subject: (request: FastifyRequest) => Subject | undefined): Concern {
  return { subject };
}

/** A rule that reads the body, which is parsed and not validated. */
export function ofBody(
  subject: (body: Record<string, unknown>, request: FastifyRequest) => Subject | undefined,
): Concern {
  return {
    isInBody: true,
    subject: (request) => subject((request.body ?? {}) as Record<string, unknown>, request),
  };
}

/** The text of a parameter; undefined when it is absent, empty or no text. */
export function param(values: unknown, name: string): string | undefined {
  const value = (values as Record<string, unknown> | null | undefined)?.[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

export function sandbox(text: string | undefined): Subject | undefined {
  return text === undefined ? undefined : { sandbox: text };
}

export function conversation(text: string | undefined): Subject | undefined {
  return text === undefined ? undefined : { conversation: text };
}
