import type { AppConversationStartRequest } from "@sandpiper/wire";
import type { FastifyContextConfig, FastifyRequest } from "fastify";
import type { newSandbox } from "../../nodes/api.ts";

/** The ids that a request names; the client gives the texts, and nothing has checked them. */
export type Subject =
  | { sandbox: string }
  /** Id of a conversation, which its start may not have stored yet. */
  | { conversation: string }
  /** Id of a start task. */
  | { task: string }
  /**
   * The request starts a conversation, which shares a sandbox of the user or creates one. The body
   * of a route that says this is kept.
   */
  | { start: AppConversationStartRequest }
  /** The request creates a sandbox. */
  | typeof newSandbox;

/**
 * How the server finds the sandbox that a request of a route concerns, when neither the key nor the
 * prefix limits the request to one sandbox. `any node`: the request concerns no sandbox, or only
 * stored data.
 */
export type Concern =
  | "any node"
  | {
      /** The rule reads the body of the request. */
      isInBody?: true;
      subject(request: FastifyRequest): Subject | undefined;
    };

declare module "fastify" {
  interface FastifyContextConfig {
    /**
     * Which sandbox a request concerns: the node that owns the sandbox must answer. A route needs
     * this field when the names in its path and query do not say it.
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
/**
 * When a request has a session key and a user's key, the session key wins over the query, as in
 * `requireAgentSandbox`.
 */
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

/** The text of a parameter; undefined when the parameter is absent, empty or not a text. */
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
