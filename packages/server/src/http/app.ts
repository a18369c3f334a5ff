import cors from "@fastify/cors";
import { serverConversationHeader } from "@sandpiper/wire";
import Fastify, { type FastifyInstance, LogController } from "fastify";
import { agentProfileRoutes } from "./agent-profiles.ts";
import { agentBashRoutes } from "./agent-server/bash.ts";
import { agentBesideRoutes } from "./agent-server/beside.ts";
import { agentBranchRoutes, filesHeader } from "./agent-server/branches.ts";
import { agentConversationRoutes } from "./agent-server/conversations.ts";
import { agentCreateRoutes } from "./agent-server/create.ts";
import { agentEventRoutes } from "./agent-server/events.ts";
import { agentFileRoutes } from "./agent-server/files.ts";
import { agentServerRoutes } from "./agent-server/routes.ts";
import { takePrefix, viewConstraint } from "./agent-server/view.ts";
import { opensToAnySite } from "./agent-server/workspace-session.ts";
import { authHook, createAuthenticator } from "./auth.ts";
import { cloudProxyRoutes } from "./cloud-proxy.ts";
import { answerClientError, installErrors, sendError } from "./errors.ts";
import { healthRoutes } from "./health.ts";
import { hostedRoutes } from "./hosted.ts";
import { installBodyParsers } from "./json.ts";
import { keyRoutes } from "./keys.ts";
import { RequestLimit } from "./limits/request-limit.ts";
import { createListener } from "./listener.ts";
import { loginRoutes } from "./login/routes.ts";
import { openAiRoutes } from "./openai/routes.ts";
import { documentRoutes, installOpenApi } from "./openapi.ts";
import { createPreviews } from "./preview/preview.ts";
import { previewRoutes } from "./preview/routes.ts";
import { installReadOnly } from "./read-only.ts";
import type { App, HttpServices } from "./services.ts";
import { maxFollowers } from "./sockets/event-socket.ts";
import { eventStreamRoutes } from "./sockets/event-stream.ts";
import { Places } from "./sockets/places.ts";
import { attachSockets } from "./sockets/server.ts";
import { loggableUrl } from "./urls.ts";
import { legacyRoutes } from "./v0/legacy.ts";
import { optionRoutes } from "./v0/options.ts";
import { legacySecretRoutes } from "./v0/secrets.ts";
import { settingsRoutes } from "./v0/settings.ts";
import { userRoutes } from "./v0/user.ts";
import { appConversationRoutes } from "./v1/app-conversations.ts";
import { callbackRoutes } from "./v1/callbacks.ts";
import { configRoutes } from "./v1/config.ts";
import { conversationWorkRoutes } from "./v1/conversation-work.ts";
import { eventRoutes } from "./v1/events.ts";
import { gitRoutes } from "./v1/git.ts";
import { sandboxArchiveRoutes } from "./v1/sandbox-archive.ts";
import { sandboxFileRoutes } from "./v1/sandbox-files.ts";
import { sandboxNetworkRoutes } from "./v1/sandbox-network.ts";
import { sandboxSecretRoutes } from "./v1/sandbox-secrets.ts";
import { sandboxSpecRoutes } from "./v1/sandbox-specs.ts";
import { sandboxRoutes } from "./v1/sandboxes.ts";
import { secretRoutes } from "./v1/secrets.ts";
import { settingsV1Routes } from "./v1/settings.ts";
import { settingsProfileRoutes } from "./v1/settings-profiles.ts";
import { skillRoutes } from "./v1/skills.ts";
import { snapshotRoutes } from "./v1/snapshots.ts";
import { startTaskRoutes } from "./v1/start-tasks.ts";
import { usersMeRoutes } from "./v1/users-me.ts";
import { webClientRoutes } from "./v1/web-client.ts";
import { webhookSecretRoutes } from "./v1/webhook-secrets.ts";
import { webhookRoutes } from "./v1/webhooks.ts";
import { validatorCompiler } from "./validation.ts";

const localOrigin = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;

/** How long a connection may be silent while a request or its answer is unfinished, ms. */
const silenceMs = 120_000;

/** How long `close` waits for clients that do not take their answers, ms. */
const closeMs = 5_000;

/**
 * The whole HTTP and WebSocket server over its services, not yet listening. `close()` of the result ends sockets with 1001
 * and waits some seconds for running requests; the services stay open.
 */
export function buildApp(services: HttpServices): FastifyInstance {
  const { config } = services;
  const authenticator = createAuthenticator(services);
  const limit = new RequestLimit(config.maxRequests);
  const followers = new Places(maxFollowers);
  const previews = createPreviews(services, authenticator, () => app.server);
  const app: App = Fastify({
    loggerInstance: services.logger,
    logController: new LogController({ disableRequestLogging: true }),
    // A line tells of its request by itself; a logger for each request costs more than some of them.
    childLoggerFactory: (logger) => logger,
    bodyLimit: config.bodyLimit,
    // For connections on which nothing moves, such as a body that never comes; sockets have their own heartbeat.
    connectionTimeout: silenceMs,
    trustProxy: config.trustedProxies.length > 0 && config.trustedProxies,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 512 },
    rewriteUrl: takePrefix,
    serverFactory: (handler, options) => createListener(handler, previews, options),
    frameworkErrors: (error, request, reply) => sendError(error, request, reply as never),
    clientErrorHandler: answerClientError,
  });

  app.addConstraintStrategy(viewConstraint((headers) => authenticator.byHeaders(headers)?.sandboxId !== undefined) as never);
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  installBodyParsers(app);
  const { answerUnknown } = installErrors(app);
  const { agentServer } = installOpenApi(app);
  const shared = {
    credentials: true,
    exposedHeaders: [serverConversationHeader, filesHeader],
    methods: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
    strictPreflight: false,
    maxAge: 600,
  };
  const usual = { ...shared, origin: [localOrigin, ...config.corsOrigins] };
  const anySite = { ...shared, origin: /^https?:\/\// };
  app.register(cors, { delegator: (request, done) => done(null, opensToAnySite(request) ? anySite : usual) });
  // The hooks of CORS come first, so that refusals carry its headers too.
  app.after(() => {
    app.addHook("onRequest", authHook(authenticator, limit));
    app.addHook("onRequest", answerUnknown);
    installReadOnly(app);
    if (config.logLevel === "debug") logRequests(app);
    healthRoutes(app, services);
    loginRoutes(app, services);
    keyRoutes(app, services);
    hostedRoutes(app, services);
    cloudProxyRoutes(app, services);
    documentRoutes(app, agentServer);
    settingsRoutes(app, services);
    settingsV1Routes(app, services);
    settingsProfileRoutes(app, services);
    usersMeRoutes(app, services);
    agentProfileRoutes(app, services);
    agentProfileRoutes(app, services, { view: "agent" });
    gitRoutes(app, services);
    userRoutes(app, services);
    sandboxSpecRoutes(app, services);
    sandboxRoutes(app, services);
    sandboxArchiveRoutes(app, services);
    sandboxFileRoutes(app, services);
    sandboxNetworkRoutes(app, services);
    sandboxSecretRoutes(app, services);
    secretRoutes(app, services);
    legacySecretRoutes(app, services);
    webhookSecretRoutes(app, services);
    previewRoutes(app, services);
    snapshotRoutes(app, services);
    appConversationRoutes(app, services);
    startTaskRoutes(app, services);
    conversationWorkRoutes(app, services);
    eventRoutes(app, services);
    legacyRoutes(app, services);
    callbackRoutes(app, services);
    skillRoutes(app, services);
    configRoutes(app);
    webClientRoutes(app);
    optionRoutes(app);
    webhookRoutes(app, services);
    agentConversationRoutes(app, services);
    agentBesideRoutes(app, services);
    agentBranchRoutes(app, services);
    agentCreateRoutes(app, services);
    agentEventRoutes(app, services);
    agentServerRoutes(app, services);
    eventStreamRoutes(app, services, authenticator, { places: followers });
    agentFileRoutes(app, services);
    openAiRoutes(app, services);
    agentBashRoutes(app, services);
  });

  const sockets = attachSockets(app.server, services, authenticator, {
    except: previews.upgrade,
    requests: limit,
    places: followers,
  });
  app.addHook("preClose", async () => {
    previews.close();
    setTimeout(() => app.server.closeAllConnections(), closeMs).unref();
    await sockets.close();
  });
  return app as unknown as FastifyInstance;
}

function logRequests(app: App): void {
  app.addHook("onResponse", (request, reply, done) => {
    const { method, url } = request;
    request.log.debug({ method, url: loggableUrl(url), status: reply.statusCode, ms: reply.elapsedTime }, "request");
    done();
  });
}
