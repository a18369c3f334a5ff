import { PlatformError } from "@sandpiper/core/errors";
import type { HTTPMethods } from "fastify";
import type { App } from "../../server/services.ts";

const skill =
  "Single skills cannot be installed: put them into .agents/skills of the repository, or register a marketplace.";
const plugin =
  "Plugins cannot be installed: name them when a conversation starts, or register a marketplace.";
const metaProfile = "This server has no meta-profiles: choose an LLM profile.";
const connection = "This server has no provider connections: store the key in the LLM profile.";
const subscription = "This server does not support subscription logins: store an API key.";

/** Requests for features that this server does not offer, with the reason. */
const refusals: readonly [method: HTTPMethods, path: string, sentence: string][] = [
  ["POST", "/api/skills/install", skill],
  ["POST", "/api/plugins/install", plugin],
  ["POST", "/api/meta-profiles/:name", metaProfile],
  ["POST", "/api/llm/provider-connections", connection],
  ["POST", "/api/llm/subscription/openai/device/start", subscription],
];

/** Paths of single items of which none exist. */
const missing: readonly [path: string, methods: HTTPMethods[], what: string][] = [
  ["/api/skills/installed/:name", ["GET", "PATCH", "DELETE"], "Skill"],
  ["/api/skills/installed/:name/refresh", ["POST"], "Skill"],
  ["/api/plugins/installed/:name", ["GET", "PATCH", "DELETE"], "Plugin"],
  ["/api/plugins/installed/:name/refresh", ["POST"], "Plugin"],
  ["/api/meta-profiles/:name", ["GET"], "Meta-profile"],
  ["/api/meta-profiles/:name/activate", ["POST"], "Meta-profile"],
  ["/api/llm/subscription/openai/device/poll", ["POST"], "Subscription device login"],
  ["/api/llm/provider-connections/:name", ["PATCH", "DELETE"], "Provider connection"],
  ["/api/mcp/oauth/status/:name", ["GET"], "Job"],
  ["/api/mcp/oauth/callback/:name", ["POST"], "Job"],
];

/**
 * The agent server's features that this platform does not offer (agent-server.md section 9). Not
 * documented.
 */
export function unsupportedRoutes(app: App): void {
  const config = { access: "agent" } as const;
  const schema = { hide: true };
  for (const [method, url, sentence] of refusals) {
    app.route({
      method,
      url,
      config,
      schema,
      handler: () => {
        throw new PlatformError("FeatureNotOffered", { reason: sentence });
      },
    });
  }
  // Deleting what does not exist is no error (agent-server-1.58.md section 4.2).
  app.delete("/api/meta-profiles/:name", { config, schema }, ({ params }) => {
    const { name } = params as { name: string };
    return { name, message: `Meta-profile '${name}' deleted` };
  });
  // Conversations lie outside of the sandbox: nothing has to be stored before it is paused.
  app.post("/api/conversations/prepare-for-sandbox-pause", { config, schema }, (_, reply) =>
    reply.code(204).send(),
  );
  // The GUI's first page needs this list. There is no automation service; its health route returns
  // 404.
  app.get("/api/automation/v1", { config, schema }, () => ({ automations: [], total: 0 }));
  for (const [url, method, what] of missing) {
    app.route({
      method,
      url,
      config,
      schema,
      handler: () => {
        throw new PlatformError("UnsupportedItemMissing", { what });
      },
    });
  }
}
