import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { parseRanges } from "@sandpiper/core/outbound/addresses";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import { type WebSocket, WebSocketServer } from "ws";
import type { Subject } from "../forwarding/concern.ts";
import type { Forwarding } from "../forwarding/forwarding.ts";
import { isForwarded } from "../forwarding/received.ts";
import type { Authenticator } from "../server/auth.ts";
import type { ConnectionGuard } from "../server/connections/connection-guard.ts";
import type { LiveCredentials } from "../server/connections/live-credentials.ts";
import { requestQueue } from "../server/connections/request-turns.ts";
import { rawResponse } from "../server/errors.ts";
import { getClientAddress, type RequestLimit } from "../server/limits/request-limit.ts";
import type { Principal } from "../server/principal.ts";
import type { HttpServices } from "../server/services.ts";
import {
  type AuthenticatedSocket,
  authenticateSocket,
  type Credential,
  rejectSocket,
} from "./authenticate.ts";
import { type BashSocketLimits, serveBashSocket } from "./bash-socket.ts";
import { type EventSocketLimits, maxFollowers, serveEventSocket } from "./event-socket.ts";
import { parseHandshake, type SocketTarget } from "./handshake.ts";
import { startHeartbeat } from "./heartbeat.ts";
import { outboxLimits } from "./outbox.ts";
import { relaySocket } from "./relay-socket.ts";
import { serveTerminal, type TerminalLimits } from "./terminal-socket.ts";

export interface SocketOptions extends EventSocketLimits, TerminalLimits, BashSocketLimits {
  /** Time for the auth frame, ms. */
  authMs: number;
  /** Interval of key checks, ms. */
  checkMs: number;
  /** Interval of pings, ms; a client that misses one is disconnected. */
  pingMs: number;
  /** How long `close`, and the end of a socket that broke the protocol, wait for clients, ms. */
  closeMs: number;
  /** Told which connections showed a valid credential. */
  connections: Pick<ConnectionGuard, "identify">;
  /** Ends sockets whose credential has ended. */
  live: Pick<LiveCredentials, "hold">;
  /** Passes handshakes on to other nodes, if there are any. */
  forwarding: Forwarding | undefined;
  /** Limits handshakes together with requests. */
  requests: RequestLimit | undefined;
  /** Handles an upgrade that is not for this server, and returns whether it did. */
  handleOther: (request: IncomingMessage, connection: Duplex, head: Buffer) => boolean;
}

/** The reference server's limit; messages of the GUI contain pasted images. */
const referenceMaxInboundBytes = 16 * 1024 * 1024;

/** Fragments of one message; browsers send some of 128 KiB each. */
const maxFragments = 1_024;

/** Pieces of one message that may arrive before the whole; the network divides at a kilobyte. */
const maxBufferedChunks = 65_536;

/** Terminals per user; each is also a process of the host. */
const maxTerminals = 32;

/**
 * Ends a socket whose client asks (pings, wrong frames) without reading the answers, because those
 * wait in memory.
 */
function endUnreadSocket(socket: WebSocket, maxUnsentBytes: number): void {
  const check = () => void (socket.bufferedAmount > maxUnsentBytes && socket.terminate());
  socket.on("ping", check).on("message", check);
}

/**
 * Reads no more from a socket that broke the protocol, and ends its connection when the client had
 * time for the close frame. The library would read and forget what a client sends for 30 seconds.
 */
function endAfterError(socket: WebSocket, connection: Duplex, closeMs: number): void {
  socket.once("error", () => {
    // The library resumes the connection behind this event.
    setImmediate(() => connection.pause());
    const late = setTimeout(() => socket.terminate(), closeMs);
    socket.once("close", () => clearTimeout(late));
  });
}

/**
 * Serves WebSockets. Refuses a wrong key or query in the handshake (403, 422) and other paths with
 * 404. `close` ends every socket with 1001 and refuses new ones.
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
  const maxInboundBytes = Math.min(services.config.bodyLimit, referenceMaxInboundBytes);
  const limits: SocketOptions = {
    ...outboxLimits,
    authMs: 10_000,
    checkMs: 10_000,
    maxInboundBytes,
    pingMs: 25_000,
    closeMs: 1_000,
    quota: new KeyedSemaphore([maxFollowers]),
    terminals: new KeyedSemaphore([maxTerminals]),
    busyMs: 10_000,
    stallTimeoutMs: 30_000,
    forwarding: undefined,
    requests: undefined,
    connections: { identify: () => {} },
    live: { hold: () => () => {} },
    handleOther: () => false,
    ...options,
  };
  // A frame over the limit gets an error frame; twice the limit closes the socket (1009).
  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    // Other work runs between two frames of a socket, however many arrive at once.
    allowSynchronousEvents: false,
    maxFragments,
    maxBufferedChunks,
    maxPayload: 2 * limits.maxInboundBytes,
  });
  const stopHeartbeat = startHeartbeat(sockets, limits.pingMs);
  const trustedProxies = parseRanges(services.config.trustedProxies);
  let closing = false;

  /**
   * By a key in the query or headers, else by the login cookie; otherwise the first frame brings a
   * key. Browsers also send the cookie from pages of other ports and hosts, which must use a key.
   */
  const callerOf = async (
    keys: readonly string[],
    request: IncomingMessage,
  ): Promise<Principal | undefined> => {
    for (const key of keys) {
      const found = await authenticator.byKey(key);
      if (found) return found;
    }
    if (keys.length > 0) return undefined;
    try {
      return await authenticator.byCookie(request, true);
    } catch (error) {
      if (error instanceof PlatformError && error.code === "CrossOrigin") return undefined;
      throw error;
    }
  };

  const serve = async (client: AuthenticatedSocket, target: SocketTarget): Promise<void> => {
    switch (target.kind) {
      case "events":
      case "session":
        return serveEventSocket(client, target, services, limits);
      case "terminal":
        return serveTerminal(client, target.query, services, limits);
      case "bash-events":
        return serveBashSocket(client, target.query, services, limits);
    }
  };

  /** Passes a handshake on, unless this node owns its sandbox. Throws what `Forwarder` throws. */
  const forward = async (
    request: IncomingMessage,
    connection: Duplex,
    head: Buffer,
    {
      target,
      caller,
      sandboxId,
    }: { target: SocketTarget; caller: Principal | undefined; sandboxId: string | undefined },
  ): Promise<boolean> => {
    const { forwarding } = limits;
    if (!forwarding) return false;
    const prefix = sandboxId === undefined ? undefined : { sandbox: sandboxId };
    const id = await forwarding.find(caller, prefix ?? subjectOf(target));
    if (id === undefined) return false;
    const incoming = { request, connection, head, isForwarded: isForwarded(request) };
    return (await forwarding.upgrade(id, incoming)) === "answered";
  };

  const upgrade = async (request: IncomingMessage, connection: Duplex, head: Buffer): Promise<void> => {
    if (limits.handleOther(request, connection, head)) return;
    const refuse = (status: number, detail: string, retryAfter?: number) =>
      void connection.end(rawResponse(status, detail, retryAfter));
    if (closing) return refuse(503, "The server is shutting down");
    const handshake = parseHandshake(request);
    if ("status" in handshake) return refuse(handshake.status, handshake.detail);
    const { target, sandboxId, keys } = handshake;
    const within = async (caller: Principal | undefined) =>
      sandboxId === undefined ? caller : authenticator.scopeToSandbox(sandboxId, caller);
    const findCaller = async () => within(await callerOf(keys, request));
    // The sandbox of the prefix may be deleted while the socket is open.
    const quietly = async (find: Credential) => {
      try {
        return await find();
      } catch (error) {
        if (error instanceof PlatformError) return undefined;
        throw error;
      }
    };
    let principal: Principal | undefined;
    try {
      principal = await findCaller();
      // The first node has counted what another one forwards.
      if (!isForwarded(request))
        limits.requests?.count(principal, () => getClientAddress(request, trustedProxies));
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error;
      return refuse(error.status, error.message, error.retryAfter);
    }
    if (keys.length > 0 && !principal) return refuse(403, "Authentication failed");
    try {
      if (await forward(request, connection, head, { target, caller: principal, sandboxId })) return;
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error;
      return refuse(error.status, error.message, error.retryAfter);
    }
    // During the look-up, the server may have begun to close.
    if (closing) return refuse(503, "The server is shutting down");
    sockets.handleUpgrade(request, connection, head, (socket) => {
      socket.on("error", (error) => services.logger.debug({ err: error }, "socket error"));
      endUnreadSocket(socket, limits.maxUnsentBytes);
      endAfterError(socket, connection, limits.closeMs);
      sockets.emit("connection", socket, request);
      const onError = (error: unknown) => services.logger.error({ err: error }, "a socket failed");
      authenticateSocket(socket, {
        caller: principal,
        byHandshake: () => quietly(findCaller),
        byKey: (key) => quietly(async () => within(await authenticator.byKey(key))),
        ...limits,
        serve: async (caller, credential, key) => {
          limits.connections.identify(connection, caller.userId);
          socket.once(
            "close",
            limits.live.hold(caller.source, () => rejectSocket(socket)),
          );
          const incoming = { request, isForwarded: isForwarded(request) };
          // A key that came after the handshake may name a sandbox of another node.
          const owner =
            key !== undefined &&
            caller.sandboxId !== undefined &&
            (await limits.forwarding?.socket(caller.sandboxId, incoming, key));
          if (owner) relaySocket(socket, owner);
          else await serve({ socket, connection, caller, credential }, target);
        },
        onError,
      });
    });
  };
  /**
   * Counts a connection with a valid credential before its turn: those without one would displace
   * it while it waits for them. Returns whether it has one.
   */
  const identify = async (request: IncomingMessage, connection: Duplex): Promise<boolean> => {
    const handshake = parseHandshake(request);
    const caller = "status" in handshake ? undefined : await callerOf(handshake.keys, request);
    if (caller) limits.connections.identify(connection, caller.userId);
    return caller !== undefined;
  };
  const queue = requestQueue(services.scheduler);
  const usersQueue = services.scheduler.queue("handshakes of users");
  server.on("upgrade", (request, connection, head) => {
    connection.on("error", () => connection.destroy());
    limits.forwarding?.receive(request);
    const fail = (error: unknown) => {
      services.logger.error({ err: error }, "a handshake failed");
      connection.destroy();
    };
    const takeTurn = (isUser: boolean) =>
      (isUser ? usersQueue : queue).add(() => {
        if (!connection.destroyed) upgrade(request, connection, head).catch(fail);
      });
    identify(request, connection).then(takeTurn, fail);
  });

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

/** What a handshake is about, without what its key says. */
function subjectOf(target: SocketTarget): Subject | undefined {
  if ("conversation" in target) return { conversation: target.conversation };
  const named = target.query.get("sandbox_id");
  return named === null ? undefined : { sandbox: named };
}
