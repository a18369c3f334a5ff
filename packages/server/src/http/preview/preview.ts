import { type IncomingMessage, type OutgoingHttpHeaders, type Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import { splice } from "@sandpiper/core/http-proxy";
import { newId } from "@sandpiper/wire";
import { makeToken } from "../../users/sandbox-grants.ts";
import type { Forwarding } from "../forwarding/forwarding.ts";
import { isForwarded } from "../forwarding/received.ts";
import type { Authenticator } from "../server/auth.ts";
import type { ConnectionGuard } from "../server/connections/connection-guard.ts";
import type { LiveCredentials } from "../server/connections/live-credentials.ts";
import type { HttpServices } from "../server/services.ts";
import { getPublicUrl } from "../server/urls.ts";
import { authorizePreview, isAppAuthorization, type PreviewAccess } from "./access.ts";
import { isForPreview, type PreviewTarget, parsePreviewTarget } from "./address.ts";
import { connectWithTimeout } from "./connect.ts";
import { makeSessionCookies } from "./cookies.ts";
import { forwardPreview, type OnUpgrade } from "./forward.ts";
import { makePreviewLinks } from "./links.ts";
import { makePathNotice } from "./path-notice.ts";
import { buildRequestHeaders } from "./request-headers.ts";
import { buildResponseHeaders, getCorsHeaders } from "./response-headers.ts";
import { hasBody, respondEmpty, respondWithError } from "./responses.ts";

export interface PreviewLimits {
  /** How long a sandbox may take to wake and accept a connection, ms. */
  connectMs: number;
  /** How long an app may be silent before its response, ms; allows long polls. */
  answerMs: number;
  /** Connections per sandbox. */
  connections: number;
}

export const previewLimits: PreviewLimits = { connectMs: 60_000, answerMs: 300_000, connections: 200 };

/** Lifetime of a browser's session, ms. */
const sessionMs = 24 * 60 * 60 * 1000;

export interface Previews {
  /** Handles a request for a preview, and returns whether it was one. */
  request(request: IncomingMessage, response: ServerResponse): boolean;
  /** Handles a WebSocket handshake in the same way. */
  upgrade(request: IncomingMessage, connection: Duplex, head: Buffer): boolean;
  /** Ends every connection and refuses new ones. */
  close(): void;
}

/**
 * Previews of ports in sandboxes over HTTP and WebSockets. An app is hostile: it gets no platform
 * credential, and its responses cannot affect the platform's pages.
 */
export function createPreviews(
  services: Pick<HttpServices, "config" | "sandboxes" | "grants" | "logger"> & {
    connections: Pick<ConnectionGuard, "identify">;
    live: Pick<LiveCredentials, "hold">;
    forwarding?: Forwarding | undefined;
  },
  authenticator: Authenticator,
  server: () => Server,
  limits: PreviewLimits = previewLimits,
): Previews {
  const { config, sandboxes, grants, logger, connections, live, forwarding } = services;
  /** By sandbox, including those that are being opened. */
  const open = new Map<string, Set<Entry>>();
  let closing = false;
  const address = () => getPublicUrl(config, server());

  /** Where the same app has a host of its own; undefined: clients use an IP address. */
  const hostUrl = (access: PreviewAccess, port: number): string | undefined => {
    const { url, pathUrl } = makePreviewLinks(access, port, address(), Date.now() + sessionMs);
    return url === pathUrl ? undefined : url;
  };

  const connect = async (
    { sandboxId, port }: PreviewTarget,
    source: string,
    response: ServerResponse,
  ): Promise<Duplex | undefined> => {
    if (closing) throw new PlatformError("ServerClosing");
    const siblings = open.get(sandboxId) ?? new Set();
    if (siblings.size >= limits.connections) {
      throw new PlatformError("TooManyPreviewConnections", { limit: limits.connections });
    }
    const entry: Entry = { end: () => response.destroy() };
    open.set(sandboxId, siblings.add(entry));
    const release = live.hold(source, () => entry.end());
    const over = () => {
      release();
      siblings.delete(entry);
      if (siblings.size === 0 && open.get(sandboxId) === siblings) open.delete(sandboxId);
    };
    const connection = await connectWithTimeout(
      () => sandboxes.connect(sandboxId, port),
      limits.connectMs,
      response,
    ).catch((error) => {
      over();
      throw error;
    });
    if (!connection) return void over();
    entry.end = () => connection.destroy();
    if (connection.destroyed) over();
    else connection.once("close", over);
    return connection;
  };

  const serve = async (
    request: IncomingMessage,
    response: ServerResponse,
    onUpgrade?: Handshake,
  ): Promise<void> => {
    const target = parsePreviewTarget(request, address());
    if ("location" in target) return respondEmpty(request, response, 308, { location: target.location });
    if (onUpgrade && (request.method !== "GET" || hasBody(request))) {
      throw new PlatformError("WebSocketRequestInvalid");
    }
    const access = await authorizePreview(request, target, onUpgrade !== undefined, {
      sandboxes,
      grants,
      authenticator,
    });
    connections.identify(request.socket, access.row.userId);
    if (access.by === "link" && !onUpgrade && isNavigation(request))
      return startSession(request, response, target, access);
    const cors = access.by === "link" || access.by === "path" ? getCorsHeaders(request) : undefined;
    if (cors && request.method === "OPTIONS" && "access-control-request-method" in request.headers) {
      return respondEmpty(request, response, 204, cors);
    }
    if (target.form === "path" && request.headers["service-worker"] !== undefined) {
      throw new PlatformError("ServiceWorkerInPathPreview");
    }
    const { sandboxId } = target;
    const incoming = { request, isForwarded: isForwarded(request) };
    const handling = onUpgrade
      ? await forwarding?.upgrade(sandboxId, { ...incoming, ...onUpgrade.client })
      : await forwarding?.request(sandboxId, { ...incoming, response });
    if (handling === "answered") return onUpgrade?.leave();
    // Nothing waits between the connection and its use, so that a client that leaves ends it.
    const forApp = await isAppAuthorization(request, authenticator);
    if (response.destroyed) return;
    const connection = await connect(target, access.source, response);
    if (!connection) return;
    const rules = {
      target,
      cors,
      byCookie: access.by === "cookie",
      frameAncestors: getFrameAncestors(address(), config.corsOrigins),
    };
    const headers = buildRequestHeaders(request, target, onUpgrade !== undefined, forApp);
    const hasNotice = target.form === "path" && !onUpgrade && isNavigation(request);
    if (hasNotice) headers["accept-encoding"] = "identity";
    const upgraded: OnUpgrade | undefined =
      onUpgrade &&
      ((answer, app, head) => onUpgrade.join(answer, app, buildResponseHeaders(answer, rules), head));
    await forwardPreview(
      request,
      response,
      connection,
      {
        ...rules,
        ...{ headers, answerMs: limits.answerMs },
        ...(hasNotice && { notice: makePathNotice(target, hostUrl(access, target.port)) }),
      },
      upgraded,
    );
  };

  const answer = async (
    request: IncomingMessage,
    response: ServerResponse,
    onUpgrade?: Handshake,
  ): Promise<void> => {
    disableTimeout(request.socket);
    request.on("error", () => {});
    response.on("error", () => {});
    try {
      await serve(request, response, onUpgrade);
    } catch (error) {
      if (response.headersSent || response.destroyed) return void response.destroy();
      respondWithError(request, response, explained(error));
    }
  };

  const explained = (error: unknown): PlatformError => {
    if (error instanceof PlatformError && error.status !== 500) return error;
    const errorId = newId();
    logger.error({ errorId, reason: errorText(error) }, "a preview failed");
    return new PlatformError("PreviewFailedInternally", { errorId });
  };

  return {
    request(request, response) {
      if (!isForPreview(request, address())) return false;
      void answer(request, response);
      return true;
    },
    upgrade(request, connection, head) {
      if (!isForPreview(request, address())) return false;
      // A refusal is an ordinary response, after which the connection ends.
      connection.on("error", () => connection.destroy());
      const response = new ServerResponse(request);
      response.shouldKeepAlive = false;
      response.assignSocket(connection as Socket);
      response.once("finish", () => connection.end());
      const leave = () => void response.detachSocket(connection as Socket);
      void answer(request, response, {
        client: { connection, head },
        leave,
        join(reply, app, headers, appHead) {
          leave();
          connection.write(switchingProtocols(reply, headers), "latin1");
          if (appHead.length > 0) connection.write(appHead);
          if (head.length > 0) app.write(head);
          splice(connection, app);
        },
      });
      return true;
    },
    close() {
      closing = true;
      for (const entries of open.values()) for (const entry of [...entries]) entry.end();
    },
  };
}

/** A connection into a sandbox. */
interface Entry {
  end(): void;
}

/** A WebSocket handshake of a client. */
interface Handshake {
  client: { connection: Duplex; head: Buffer };
  /** Takes the connection away from the response. */
  leave(): void;
  /** Joins the connection to the one of the app. */
  join(answer: IncomingMessage, app: Duplex, headers: OutgoingHttpHeaders, head: Buffer): void;
}

function switchingProtocols(answer: IncomingMessage, headers: OutgoingHttpHeaders): string {
  const all = Object.entries({ ...headers, connection: "Upgrade", upgrade: answer.headers.upgrade });
  const lines = all.flatMap(([name, value]) => [value ?? []].flat().map((one) => `${name}: ${one}\r\n`));
  return `HTTP/1.1 101 Switching Protocols\r\n${lines.join("")}\r\n`;
}

/** Streams may be silent for hours; TCP keep-alive detects dead peers. */
function disableTimeout(socket: Socket): void {
  socket.setTimeout(0);
  socket.setKeepAlive(true, 60_000);
  socket.setNoDelay(true);
}

/** Whether a browser opens a page, in contrast to a fetch by a page or program. */
function isNavigation({ method, headers }: IncomingMessage): boolean {
  const mode = headers["sec-fetch-mode"];
  return (
    method === "GET" &&
    (mode === undefined ? /\btext\/html\b/.test(headers.accept ?? "") : mode === "navigate")
  );
}

/** Exchanges a link for a session, and redirects to the same page without the link. */
function startSession(
  request: IncomingMessage,
  response: ServerResponse,
  target: PreviewTarget,
  access: PreviewAccess,
): void {
  const expires = Date.now() + sessionMs;
  const token = makeToken(access, target.port, "session", expires);
  if (target.form === "host") {
    const location = target.origin + target.appPath;
    return respondEmpty(request, response, 303, {
      location,
      "set-cookie": makeSessionCookies(token, target, expires),
    });
  }
  // A page without an origin sends no cookies, so the token stays in its path.
  return respondEmpty(request, response, 303, { location: `${target.cookiePath}~${token}${target.appPath}` });
}

/**
 * The server's own pages, local pages, and origins that may call the API, but no other previews.
 */
export function getFrameAncestors(address: string, corsOrigins: string[]): string {
  const local = ["http", "https"].flatMap((scheme) => [`${scheme}://localhost:*`, `${scheme}://127.0.0.1:*`]);
  return ["'self'", new URL(address).origin, ...local, ...corsOrigins].join(" ");
}
