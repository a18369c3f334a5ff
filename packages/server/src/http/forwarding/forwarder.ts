import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type Duplex, pipeline, type Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import { hopByHopHeaders, splice } from "@sandpiper/core/http-proxy";
import type { WebSocket } from "ws";
import { newSandbox, type Ownership, type SandboxRef } from "../../nodes/api.ts";
import { gatherPieces } from "../server/gather-pieces.ts";
import type { SandboxTarget } from "./find-sandbox.ts";
import { joinSockets } from "./join-sockets.ts";
import type { ForwardedRequest, NodeAnswer, NodeClient } from "./node-client.ts";

const defaultTakeoverMs = 10_000;

/** Delay between two attempts to find the node of a sandbox, ms. */
const retryMs = 150;

/** Status of a node that does not own the sandbox of a request; only other nodes see it. */
const misdirected = 421;

/** Whether this node must handle a request, or another node has answered it. */
export type Handling = "here" | "answered";

/** A request that this node or another one must handle. */
interface Incoming {
  request: IncomingMessage;
  /** Whether another node has forwarded the request, because it takes this node for the owner. */
  isForwarded: boolean;
}

/**
 * Sends requests to the nodes that own their sandboxes, and the answers of those nodes to the
 * clients.
 */
export class Forwarder {
  readonly #ownership: Pick<Ownership, "locate">;
  readonly #client: NodeClient;
  /** Functions that end the sockets and endless answers that are passed on to clients. */
  readonly #open = new Set<() => void>();
  readonly #takeoverMs: number;

  constructor(deps: {
    ownership: Pick<Ownership, "locate">;
    client: NodeClient;
    /** How long a request waits for a node to claim a sandbox, ms; default 10 s. */
    takeoverMs?: number;
  }) {
    this.#ownership = deps.ownership;
    this.#client = deps.client;
    this.#takeoverMs = deps.takeoverMs ?? defaultTakeoverMs;
  }

  /**
   * Answers a request with the answer of the node that owns its sandbox, unless this node owns it.
   * A new sandbox belongs to the node that shall create it, or to this node when that one is away.
   * `body` is the body of the request, if this node has read it. Throws NodeUnreachable,
   * SandboxMoved, NodeFailed.
   */
  async request(
    sandbox: SandboxTarget,
    {
      request,
      response,
      isForwarded,
      body,
    }: Incoming & { response: ServerResponse; body?: Buffer | undefined },
  ): Promise<Handling> {
    const gone = new AbortController();
    const leave = () => gone.abort();
    response.once("close", leave);
    const forwarded = {
      ...toForwarded(request),
      body: body ? () => body : lazyBody(request, response),
      signal: gone.signal,
    };
    try {
      const answer = await this.#ask(sandbox, forwarded, isForwarded);
      if (answer === "misdirected") response.writeHead(misdirected).end();
      else if (answer !== "here") this.#respond(request, response, answer.response, leave);
      return answer === "here" ? answer : "answered";
    } catch (error) {
      gone.abort();
      // A body that nobody reads to its end ends the connection. Otherwise the client may use the
      // connection again.
      if (!request.complete) response.shouldKeepAlive = false;
      connectionOf(request).setTimeout?.(timeoutOf(request));
      throw error;
    } finally {
      response.off("close", leave);
    }
  }

  /**
   * Passes a handshake on to the node that owns the sandbox, as `request` does with a request. An
   * answer without an upgrade is a refusal, which goes to the client.
   */
  async upgrade(
    sandbox: SandboxTarget,
    { request, connection, head, isForwarded }: Incoming & { connection: Duplex; head: Buffer },
  ): Promise<Handling> {
    const gone = new AbortController();
    const leave = () => gone.abort();
    connection.once("close", leave);
    const forwarded = { ...toForwarded(request), body: () => undefined, signal: gone.signal };
    const answer = await this.#ask(sandbox, forwarded, isForwarded).finally(() =>
      connection.off("close", leave),
    );
    if (answer === "here") return answer;
    if (answer === "misdirected") connection.end(`HTTP/1.1 ${misdirected} Misdirected Request\r\n\r\n`);
    else if ("connection" in answer) this.#join(connection, head, answer);
    else refuse(connection, answer.response);
    return "answered";
  }

  /**
   * Opens a socket to the owner of a sandbox for a client whose first frame had the sandbox's key.
   * Returns undefined when this node is the owner. Throws NodeUnreachable.
   */
  async socket(
    sandboxId: string,
    { request, isForwarded }: Incoming,
    key: string,
  ): Promise<WebSocket | undefined> {
    const node = isForwarded ? "here" : await this.#ownership.locate(sandboxId);
    return node === "here" ? undefined : this.#client.socket(node, toForwarded(request), key);
  }

  /** Ends sockets and endless answers, because this node closes: clients connect again. */
  leave(): void {
    for (const end of this.#open) end();
  }

  /** Ends the connections to other nodes. */
  close(): void {
    this.#client.close();
  }

  /**
   * Tries again while the owner of a sandbox cannot be reached, because another node may claim the
   * sandbox.
   */
  async #ask(
    target: SandboxTarget,
    request: ForwardedRequest,
    isForwarded: boolean,
  ): Promise<NodeAnswer | "here" | "misdirected"> {
    const deadline = performance.now() + this.#takeoverMs;
    for (;;) {
      const sandbox: SandboxRef = typeof target === "function" ? await target() : target;
      if (sandbox === newSandbox && isForwarded) return "here";
      try {
        const node = await this.#ownership.locate(sandbox);
        if (node === "here") return node;
        if (isForwarded) return "misdirected";
        const answer = await this.#client.send(node, request);
        if (answer.response.statusCode !== misdirected) return answer;
        answer.response.resume();
        throw new PlatformError("SandboxHasMoved", { retryAfter: 1 });
      } catch (error) {
        if (isForwarded && isPassing(error)) return "misdirected";
        if (sandbox === newSandbox && isPassing(error)) return "here";
        if (!mayRepeat(error, request) || performance.now() > deadline) throw error;
      }
      await sleep(retryMs, undefined, { ref: false });
    }
  }

  /** `leave` ends the rest of the request to the owner. */
  #respond(
    request: IncomingMessage,
    response: ServerResponse,
    answer: IncomingMessage,
    leave: () => void,
  ): void {
    response.off("close", leave);
    const dropped = hopByHopHeaders(answer.headers.connection);
    // The owner may answer before it has read the whole body.
    if (!request.complete) response.shouldKeepAlive = false;
    for (const [name, value] of headersOf(answer, dropped)) response.appendHeader(name, value);
    response.writeHead(answer.statusCode!);
    setImmediate(() => !response.writableEnded && response.flushHeaders());
    const isEndless = answer.headers["content-type"]?.startsWith("text/event-stream");
    const end = () => response.destroy();
    if (isEndless) this.#open.add(end);
    pipeline([answer, response], () => {
      this.#open.delete(end);
      leave();
      request.resume();
    });
  }

  #join(
    client: Duplex,
    head: Buffer,
    owner: { response: IncomingMessage; connection: Duplex; head: Buffer },
  ): void {
    client.write(headOf(owner.response, new Set()), "latin1");
    if (head.length > 0) owner.connection.write(head);
    const { connection, head: first, response } = owner;
    const done = () => this.#open.delete(leave);
    // An app in a sandbox may use another protocol, of which this node knows nothing.
    if (response.headers.upgrade?.toLowerCase() !== "websocket") {
      if (first.length > 0) client.write(first);
      const leave = () => void client.destroy();
      this.#open.add(leave);
      return splice(client, connection, { onDone: () => this.#open.delete(leave) });
    }
    const leave = joinSockets({ client, owner: connection, first, onDone: done });
    this.#open.add(leave);
  }
}

/** Whether another attempt or another node may succeed after an error. */
function isPassing(error: unknown): boolean {
  return (
    error instanceof PlatformError && (error.code === "NodeUnreachable" || error.code === "SandboxMoved")
  );
}

/** A body that has begun to flow cannot be sent again to another node. */
function mayRepeat(error: unknown, { hasFlowed, signal }: ForwardedRequest): boolean {
  return isPassing(error) && !signal.aborted && !hasFlowed;
}

/** The request as the client sent it: the router may have changed its URL. */
function toForwarded(request: IncomingMessage): Omit<ForwardedRequest, "body" | "signal" | "hasFlowed"> {
  const { method = "GET", headers, socket } = request;
  const url = (request as { originalUrl?: string }).originalUrl ?? request.url ?? "/";
  const begin = () => {
    // The owner bounds how long a request may be silent, because it knows the limit of the route.
    connectionOf(request).setTimeout?.(0);
    connectionOf(request).setKeepAlive?.(true, 60_000);
  };
  return { method, url, headers, client: socket.remoteAddress ?? "", begin };
}

/** The client's connection; a request that the server makes to itself has none. */
function connectionOf({ socket }: IncomingMessage): Partial<Socket> {
  return socket;
}

function timeoutOf(request: IncomingMessage): number {
  return (connectionOf(request).server as { timeout?: number } | null | undefined)?.timeout ?? 0;
}

/** The body of a request, which begins to flow when it is asked for. */
function lazyBody(request: IncomingMessage, response: ServerResponse): () => Readable | undefined {
  const { "content-length": length, "transfer-encoding": encoding } = request.headers;
  if (encoding !== undefined) return () => gatherPieces(request, response).on("error", () => {});
  return () => (length !== undefined && length !== "0" ? request : undefined);
}

/** Passes the refusal of a handshake on to the client. */
function refuse(connection: Duplex, answer: IncomingMessage): void {
  const dropped = hopByHopHeaders(answer.headers.connection);
  connection.write(headOf(answer, dropped, "Connection: close\r\n"), "latin1");
  pipeline([answer, connection], () => {});
}

function headersOf({ rawHeaders }: IncomingMessage, dropped: ReadonlySet<string>): [string, string][] {
  const kept: [string, string][] = [];
  for (let index = 0; index < rawHeaders.length; index += 2)
    if (!dropped.has(rawHeaders[index]!.toLowerCase()))
      kept.push([rawHeaders[index]!, rawHeaders[index + 1]!]);
  return kept;
}

function headOf(answer: IncomingMessage, dropped: ReadonlySet<string>, more = ""): string {
  const lines = headersOf(answer, dropped).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}\r\n${lines.join("")}${more}\r\n`;
}
