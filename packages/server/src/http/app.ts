import cors from "@fastify/cors";
import { parseRanges } from "@sandpiper/core/outbound/addresses";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import { errorCodeHeader, serverConversationHeader } from "@sandpiper/wire";
import Fastify, { type FastifyReply, LogController } from "fastify";
import { answerElsewhere, installForwarding } from "./forwarding/forward-hook.ts";
import { createForwarding } from "./forwarding/forwarding.ts";
import { documentRoutes, installOpenApi } from "./openapi/openapi.ts";
import { createPreviews } from "./preview/preview.ts";
import { previewRoutes } from "./preview/routes.ts";
import { agentProfileRoutes } from "./routes/account/agent-profiles.ts";
import { behaviourRoutes } from "./routes/account/behaviours.ts";
import { cloudProxyRoutes } from "./routes/account/cloud-proxy.ts";
import { healthRoutes } from "./routes/account/health.ts";
import { keyRoutes } from "./routes/account/keys.ts";
import { loginRoutes } from "./routes/account/login/routes.ts";
import { organizationStubRoutes } from "./routes/account/organization-stubs.ts";
import { agentBashRoutes } from "./routes/agent-server/bash.ts";
import { agentBranchRoutes, filesHeader } from "./routes/agent-server/branches.ts";
import { agentConversationRoutes } from "./routes/agent-server/conversations.ts";
import { agentCreateRoutes } from "./routes/agent-server/create.ts";
import { agentEditorRoutes } from "./routes/agent-server/editor.ts";
import { agentEventRoutes } from "./routes/agent-server/events.ts";
import { agentFileRoutes } from "./routes/agent-server/files.ts";
import { agentServerRoutes } from "./routes/agent-server/routes.ts";
import { agentRuntimeRoutes } from "./routes/agent-server/runtime.ts";
import { agentSideCallRoutes } from "./routes/agent-server/side-call-routes.ts";
import { makeViewConstraint, stripPrefix } from "./routes/agent-server/view.ts";
import { allowsAnySite } from "./routes/agent-server/workspace-session.ts";
import { openAiRoutes } from "./routes/openai/routes.ts";
import { legacyRoutes } from "./routes/v0/legacy.ts";
import { optionRoutes } from "./routes/v0/options.ts";
import { legacySecretRoutes } from "./routes/v0/secrets.ts";
import { settingsRoutes } from "./routes/v0/settings.ts";
import { userRoutes } from "./routes/v0/user.ts";
import { appConversationRoutes } from "./routes/v1/app-conversations.ts";
import { callbackRoutes } from "./routes/v1/callbacks.ts";
import { configRoutes } from "./routes/v1/config.ts";
import { conversationWorkRoutes } from "./routes/v1/conversation-work.ts";
import { eventRoutes } from "./routes/v1/events.ts";
import { gitRoutes } from "./routes/v1/git.ts";
import { sandboxArchiveRoutes } from "./routes/v1/sandbox-archive.ts";
import { sandboxFileRoutes } from "./routes/v1/sandbox-files.ts";
import { sandboxNetworkRoutes } from "./routes/v1/sandbox-network.ts";
import { sandboxSecretRoutes } from "./routes/v1/sandbox-secrets.ts";
import { sandboxSpecRoutes } from "./routes/v1/sandbox-specs.ts";
import { sandboxRoutes } from "./routes/v1/sandboxes.ts";
import { secretRoutes } from "./routes/v1/secrets.ts";
import { settingsV1Routes } from "./routes/v1/settings.ts";
import { settingsProfileRoutes } from "./routes/v1/settings-profiles.ts";
import { skillRoutes } from "./routes/v1/skills.ts";
import { snapshotRoutes } from "./routes/v1/snapshots.ts";
import { startTaskRoutes } from "./routes/v1/start-tasks.ts";
import { usersMeRoutes } from "./routes/v1/users-me.ts";
import { webClientRoutes } from "./routes/v1/web-client.ts";
import { webhookSecretRoutes } from "./routes/v1/webhook-secrets.ts";
import { webhookRoutes } from "./routes/v1/webhooks.ts";
import { authHook, createAuthenticator } from "./server/auth.ts";
import { installBodyParsers } from "./server/body-parsers.ts";
import { acceptMore } from "./server/connections/accept-more.ts";
import { ConnectionGuard } from "./server/connections/connection-guard.ts";
import { connectionLimits, readDescriptorLimit } from "./server/connections/connection-limits.ts";
import { LiveCredentials } from "./server/connections/live-credentials.ts";
import { installErrors, respondToClientError, sendError } from "./server/errors.ts";
import { RequestLimit } from "./server/limits/request-limit.ts";
import { createListener } from "./server/listener.ts";
import { installReadOnly } from "./server/read-only.ts";
import type { App, HttpServices } from "./server/services.ts";
import { maskUrl } from "./server/urls.ts";
import { validatorCompiler } from "./server/validation.ts";
import { maxFollowers } from "./sockets/event-socket.ts";
import { eventStreamRoutes } from "./sockets/event-stream.ts";
import { attachSockets } from "./sockets/server.ts";

const localOrigin = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;

/** How long a connection may be silent while a request or its response is unfinished, ms. */
const idleTimeoutMs = 120_000;

/** How long `close` waits for clients that are slow to read their responses, ms. */
const closeTimeoutMs = 5_000;

/**
 * Builds the HTTP and WebSocket server over its services, not yet listening. `close()` ends sockets
 * with 1001 and waits up to 5 s for running requests; the services stay open.
 */
export function buildApp(services: HttpServices): App {
  const { config, scheduler } = services;
  const authenticator = createAuthenticator(services);
  const limit = new RequestLimit(config.maxRequests, {
    countNodes: () => services.forwarding?.ownership.nodeCount ?? 1,
  });
  const followers = new KeyedSemaphore([maxFollowers]);
  const connections = new ConnectionGuard({
    limits: connectionLimits(readDescriptorLimit()),
    trustedProxies: parseRanges(config.trustedProxies),
    logger: services.logger,
  });
  const live = new LiveCredentials(services.sources, services.logger);
  const forwarding =
    services.forwarding &&
    createForwarding(services.forwarding, { sandboxes: services.sandboxes, connections });
  const previews = createPreviews(
    { ...services, connections, live, forwarding },
    authenticator,
    () => app.server,
  );
  const app: App = Fastify({
    loggerInstance: services.logger,
    logController: new LogController({ disableRequestLogging: true }),
    // Log lines carry their request's data themselves; a logger for each request costs more.
    childLoggerFactory: (logger) => logger,
    bodyLimit: config.bodyLimit,
    // Ends connections without traffic, such as a body that never comes; sockets have a heartbeat.
    connectionTimeout: idleTimeoutMs,
    trustProxy: config.trustedProxies.length > 0 && config.trustedProxies,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 512 },
    rewriteUrl: stripPrefix,
    serverFactory: (handler, options) =>
      createListener(handler, previews, { connections, scheduler, forwarding }, options),
    frameworkErrors: (error, request, reply) => sendError(error, request, reply as FastifyReply),
    clientErrorHandler: respondToClientError,
  });

  app.addConstraintStrategy(
    makeViewConstraint(async (headers) => (await authenticator.byHeaders(headers))?.sandboxId !== undefined),
  );
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  const { bodyLimit } = config;
  installBodyParsers(app, { scheduler, bodyLimit, keepsBodies: forwarding !== undefined });
  const { rejectUnknownPath } = installErrors(app, forwarding && answerElsewhere(forwarding));
  const documents = installOpenApi(app);
  const corsOptions = {
    credentials: true,
    exposedHeaders: [serverConversationHeader, filesHeader, errorCodeHeader],
    methods: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
    strictPreflight: false,
    maxAge: 600,
  };
  const configuredOrigins = { ...corsOptions, origin: [localOrigin, ...config.corsOrigins] };
  const anySite = { ...corsOptions, origin: /^https?:\/\// };
  app.register(cors, {
    delegator: (request, done) => done(null, allowsAnySite(request) ? anySite : configuredOrigins),
  });
  // CORS registers its hooks first, so that refusals carry its headers too.
  app.after(() => {
    app.addHook("onRequest", authHook({ authenticator, limit, connections, live }));
    app.addHook("onRequest", rejectUnknownPath);
    if (forwarding) installForwarding(app, forwarding);
    installReadOnly(app);
    if (config.logLevel === "debug") logRequests(app);
    healthRoutes(app, services);
    loginRoutes(app, services);
    keyRoutes(app, services);
    behaviourRoutes(app, services);
    organizationStubRoutes(app, services);
    cloudProxyRoutes(app, services);
    documentRoutes(app, documents);
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
    agentSideCallRoutes(app, services);
    agentBranchRoutes(app, services);
    agentCreateRoutes(app, services);
    agentEventRoutes(app, services);
    agentServerRoutes(app, services);
    eventStreamRoutes(app, services, { quota: followers });
    agentFileRoutes(app, services);
    openAiRoutes(app, services);
    agentBashRoutes(app, services);
    agentEditorRoutes(app, services);
    agentRuntimeRoutes(app, services);
  });

  const sockets = attachSockets(app.server, services, authenticator, {
    handleOther: previews.upgrade,
    requests: limit,
    quota: followers,
    connections,
    live,
    forwarding,
  });
  let others: ReturnType<typeof acceptMore> | undefined;
  let othersClosed: Promise<unknown> | undefined;
  app.addHook("onListen", async () => {
    others = acceptMore(app.server);
  });
  app.addHook("onClose", async () => {
    await othersClosed;
    forwarding?.close();
  });
  app.addHook("preClose", async () => {
    othersClosed = others?.close();
    live.close();
    previews.close();
    forwarding?.leave();
    setTimeout(() => app.server.closeAllConnections(), closeTimeoutMs).unref();
    await sockets.close();
  });
  return app;
}

function logRequests(app: App): void {
  app.addHook("onResponse", (request, reply, done) => {
    const { method, url } = request;
    request.log.debug(
      { method, url: maskUrl(url), status: reply.statusCode, ms: reply.elapsedTime },
      "request",
    );
    done();
  });
}
