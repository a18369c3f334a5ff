import { once } from "node:events";
import { Agent, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from "node:http";
import type { Duplex, Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { hopByHopHeaders } from "@sandpiper/core/http-proxy";
import { WebSocket } from "ws";
import type { NodeRow } from "../../store/node-store.ts";
import { type Passes, passHeader } from "./pass.ts";

/** How long another node may take to accept a connection, ms. */
const connectMs = 2_000;

/**
 * Silence after which a probe checks a connection to another node, ms. The connection ends after
 * ten probes without an answer.
 */
const aliveMs = 5_000;

/** Most idle connections to each other node that this node keeps. */
const maxFreeConnections = 64;

/** A request that this node sends to another one. */
export interface ForwardedRequest {
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  /** Address of the peer of the connection on which the request came: the client, or its proxy. */
  client: string;
  /** The node client calls this before it sends the request. */
  begin?(): void;
  /** Returns the body, which then begins to flow; undefined: the request has no body. */
  body(): Readable | Buffer | undefined;
  /** True once the body has begun to flow. A body flows only once. */
  hasFlowed?: boolean;
  /** This signal is aborted when the client has left. */
  signal: AbortSignal;
}

/** The answer of another node: a response, or the node's side of an upgraded connection. */
export type NodeAnswer =
  | { response: IncomingMessage }
  | { response: IncomingMessage; connection: Duplex; head: Buffer };

/** Sends requests to the nodes that own their sandboxes. */
export class NodeClient {
  readonly #passes: Passes;
  readonly #agent = new Agent({ keepAlive: true, maxFreeSockets: maxFreeConnections, scheduling: "fifo" });

  constructor(passes: Passes) {
    this.#passes = passes;
  }

  /**
   * Sends a request and resolves with the head of the answer. Throws NodeUnreachable when the
   * caller may try again: nothing of the request was sent, or the request is a read whose body has
   * not flowed. Throws NodeFailed for any other broken request.
   */
  send(node: NodeRow, forwarded: ForwardedRequest): Promise<NodeAnswer> {
    const { method, url, signal } = forwarded;
    const target = new URL(node.url);
    return new Promise((resolve, reject) => {
      let isSent = false;
      const request = httpRequest({
        ...{ host: target.hostname.replace(/^\[|\]$/g, ""), port: target.port || 80, method, path: url },
        ...{ agent: this.#agent, signal, setHost: false },
        headers: this.#headers(node, forwarded),
      });
      const late = setTimeout(() => request.destroy(new Error("no connection in time")), connectMs);
      request.once("socket", (socket) => {
        const begin = () => {
          clearTimeout(late);
          forwarded.begin?.();
          socket.setNoDelay(true);
          // The probes find out within seconds that the other machine is gone.
          socket.setKeepAlive(true, aliveMs);
          const body = forwarded.body();
          forwarded.hasFlowed = body !== undefined && !(body instanceof Uint8Array);
          // A repeated read does no harm. When the connection breaks, the other node may have done
          // a write.
          isSent = !isRead(method) || forwarded.hasFlowed;
          if (body instanceof Uint8Array) request.end(body);
          else if (body) body.pipe(request);
          else request.end();
        };
        if (socket.connecting) socket.once("connect", begin);
        else begin();
      });
      request.once("response", (response) => resolve({ response }));
      request.once("upgrade", (response, connection, head) => resolve({ response, connection, head }));
      request.on("error", (cause) => {
        clearTimeout(late);
        reject(
          isSent
            ? new PlatformError("NodeBroke", { cause })
            : new PlatformError("NodeNotReached", { cause, retryAfter: 2 }),
        );
      });
    });
  }

  /**
   * Opens a WebSocket to another node with the key of a client. Throws NodeUnreachable when that
   * fails.
   */
  async socket(
    node: NodeRow,
    { url, client }: { url: string; client: string },
    key: string,
  ): Promise<WebSocket> {
    const pass = this.#passes.make({ node: node.incarnation, method: "GET", url }, { client });
    const socket = new WebSocket(node.url.replace(/^http/, "ws") + url, {
      headers: { "x-session-api-key": key, [passHeader]: pass },
      perMessageDeflate: false,
      handshakeTimeout: connectMs,
    });
    try {
      await once(socket, "open");
    } catch (cause) {
      throw new PlatformError("NodeNotReached", { cause, retryAfter: 2 });
    }
    return socket;
  }

  close(): void {
    this.#agent.destroy();
  }

  #headers(node: NodeRow, { method, url, headers, client }: ForwardedRequest): OutgoingHttpHeaders {
    const dropped = hopByHopHeaders(headers.connection);
    const isUpgrade = headers.upgrade !== undefined;
    const kept = Object.entries(headers).filter(([name]) => !dropped.has(name) && name !== passHeader);
    return {
      ...Object.fromEntries(kept),
      ...(isUpgrade && { connection: "Upgrade", upgrade: headers.upgrade }),
      [passHeader]: this.#passes.make({ node: node.incarnation, method, url }, { client }),
    };
  }
}

function isRead(method: string): boolean {
  return method === "GET" || method === "HEAD";
}
