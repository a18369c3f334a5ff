import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import { type WebSocket, WebSocketServer } from "ws";
import type { Authenticator } from "../server/auth.ts";
import { rawAnswer } from "../server/errors.ts";
import type { RequestLimit } from "../server/limits/request-limit.ts";
import type { Principal } from "../server/principal.ts";
import type { HttpServices } from "../server/services.ts";
import { authenticateSocket, type Credential } from "./authenticate.ts";
import { type BashSocketLimits, serveBashSocket } from "./bash-socket.ts";
import { type EventSocketLimits, maxFollowers, serveEventSocket } from "./event-socket.ts";
import { readHandshake, type SocketTarget } from "./handshake.ts";
import { startHeartbeat } from "./heartbeat.ts";
import { outboxLimits } from "./outbox.ts";
import { serveTerminal, type TerminalLimits } from "./terminal-socket.ts";

export interface SocketOptions extends EventSocketLimits, TerminalLimits, BashSocketLimits {
  /** Time for the auth frame, ms. */
  authMs: number;
  /** How often it is looked whether a socket's key is still valid, ms. */
  checkMs: number;
  /** Interval of pings; a client that stays silent over one of them is ended, ms. */
  pingMs: number;
  /** How long `close` waits for clients to answer, ms. */
  closeMs: number;
  /** Bounds handshakes together with requests. */
  requests: RequestLimit | undefined;
  /** Takes an upgrade that is not for this server, and gives whether it did. */
  except: (request: IncomingMessage, connection: Duplex, head: Buffer) => boolean;
}

/** Messages of the GUI carry pasted images; this is what the reference server takes. */
const maxInboundBytes = 16 * 1024 * 1024;

/** Open terminals of a user: each is a process of the server's machine too. */
const maxTerminals = 32;

/**
 * Serves WebSockets on an HTTP server's upgrades. A wrong key or query is refused in the handshake (403, 422), another path with 404.
 * `close` ends every socket with 1001 and refuses new ones.
 */
export function attachSockets(
  server: Server,
  services: Pick<
    HttpServices,
    "bash" | "config" | "conversations" | "events" | "logger" | "sandboxes" | "scheduler"
  >,
  authenticator: Authenticator,
  options: Partial<SocketOptions> = {},
): { close(): Promise<void> } {
  const inboundBytes = Math.min(services.config.bodyLimit, maxInboundBytes);
  const limits: SocketOptions = {
    ...outboxLimits,
    authMs: 10_000,
    checkMs: 10_000,
    inboundBytes,
    pingMs: 25_000,
    closeMs: 1_000,
    places: new KeyedSemaphore([maxFollowers]),
    terminals: new KeyedSemaphore([maxTerminals]),
    busyMs: 10_000,
    stallMs: 30_000,
    requests: undefined,
    except: () => false,
    ...options,
  };
  // A frame over the limit gets an error frame; only one of more than twice the size ends the socket (1009).
  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: 2 * limits.inboundBytes,
  });
  const stopHeartbeat = startHeartbeat(sockets, limits.pingMs);
  let closing = false;

  /**
   * By a key in the query or the headers, else by the login cookie; none means that the first frame brings a key. A browser sends the cookie along from
   * pages of other ports and neighbouring hosts too: there it counts for nothing, and the page has to know a key.
   */
  const callerOf = (keys: readonly string[], request: IncomingMessage): Principal | undefined => {
    if (keys.length > 0)
      return keys.map((key) => authenticator.byKey(key)).find((found) => found !== undefined);
    try {
      return authenticator.byCookie(request, true);
    } catch (error) {
      if (error instanceof PlatformError && error.code === "CrossOrigin") return undefined;
      throw error;
    }
  };

  const serve = (
    socket: WebSocket,
    connection: Duplex,
    target: SocketTarget,
    caller: Principal,
    credential: Credential,
  ) => {
    switch (target.kind) {
      case "events":
        return serveEventSocket(socket, connection, target, caller, credential, services, limits);
      case "terminal":
        return serveTerminal(socket, target.query, caller, credential, services, limits);
      case "bash-events":
        return serveBashSocket(socket, target.query, caller, credential, services, limits);
    }
  };

  const upgrade = (request: IncomingMessage, connection: Duplex, head: Buffer) => {
    if (limits.except(request, connection, head)) return;
    connection.on("error", () => connection.destroy());
    const refuse = (status: number, detail: string, retryAfter?: number) =>
      connection.end(rawAnswer(status, detail, retryAfter));
    if (closing) return refuse(503, "The server is shutting down");
    const handshake = readHandshake(request);
    if ("status" in handshake) return refuse(handshake.status, handshake.detail);
    const { target, sandboxId, keys } = handshake;
    const within = (caller: Principal | undefined) =>
      sandboxId === undefined ? caller : authenticator.within(sandboxId, caller);
    const caller = () => within(callerOf(keys, request));
    // The sandbox of the prefix may be deleted while the socket is open.
    const quietly = (find: Credential) => () => {
      try {
        return find();
      } catch (error) {
        if (error instanceof PlatformError) return undefined;
        throw error;
      }
    };
    let principal: Principal | undefined;
    try {
      principal = caller();
      limits.requests?.count(principal, () => request.socket.remoteAddress);
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error;
      return refuse(error.status, error.message, error.retryAfter);
    }
    if (keys.length > 0 && !principal) return refuse(403, "Authentication failed");
    sockets.handleUpgrade(request, connection, head, (socket) => {
      socket.on("error", (error) => services.logger.debug({ err: error }, "socket error"));
      sockets.emit("connection", socket, request);
      const onError = (error: unknown) => services.logger.error({ err: error }, "a socket failed");
      authenticateSocket(socket, {
        byHandshake: quietly(caller),
        byKey: (key) => quietly(() => within(authenticator.byKey(key)))(),
        ...limits,
        serve: (caller, current) => serve(socket, connection, target, caller, current),
        onError,
      });
    });
  };
  server.on("upgrade", upgrade);

  return {
    async close() {
      closing = true;
      stopHeartbeat();
      const open = [...sockets.clients];
      const closed = open.map((socket) => new Promise((resolve) => socket.once("close", resolve)));
      for (const socket of open) socket.close(1001, "The server is shutting down");
      const late = setTimeout(() => {
        for (const socket of open) socket.terminate();
      }, limits.closeMs);
      await Promise.all(closed);
      clearTimeout(late);
    },
  };
}
