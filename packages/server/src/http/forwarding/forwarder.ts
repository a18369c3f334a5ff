import type { IncomingMessage, ServerResponse } from "node:http";
import { type Duplex, pipeline, type Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import { hopByHopHeaders, splice } from "@sandpiper/core/http-proxy";
import type { Ownership } from "../../nodes/api.ts";
import type { ForwardedRequest, NodeAnswer, NodeClient } from "./node-client.ts";

/** How long a request waits for a node that takes over a sandbox, ms. */
const takeoverMs = 10_000;

/** Delay between two attempts to find the node of a sandbox, ms. */
const retryMs = 150;

/** A request that is handled here, or has been answered by the node of its sandbox. */
export type Handling = "here" | "forwarded";

/** Sends requests for sandboxes to the nodes that own them, and their answers to the clients. */
export class Forwarder {
  readonly #ownership: Pick<Ownership, "locate">;
  readonly #client: NodeClient;

  constructor(deps: { ownership: Pick<Ownership, "locate">; client: NodeClient }) {
    this.#ownership = deps.ownership;
    this.#client = deps.client;
  }

  /**
   * Answers a request from the node of its sandbox, unless that is this one. `isForwarded`: another
   * node has taken this one for it. `body`: what was read of the request, if anything. Throws
   * SandboxMoved, NodeUnreachable, NodeFailed.
   */
  async request(
    sandboxId: string,
    {
      request,
      response,
      client,
      isForwarded,
      body = readBody(request),
    }: {
      request: IncomingMessage;
      response: ServerResponse;
      client: string;
      isForwarded: boolean;
      body?: Readable | Buffer | undefined;
    },
  ): Promise<Handling> {
    const gone = new AbortController();
    const leave = () => gone.abort();
    response.once("close", leave);
    const { method = "GET", url = "/", headers } = request;
    const forwarded = { method, url, headers, client, body, signal: gone.signal };
    const answer = await this.#ask(sandboxId, forwarded, isForwarded).catch((error: unknown) => {
      response.off("close", leave);
      throw error;
    });
    if (answer === "here") {
      response.off("close", leave);
      return answer;
    }
    respond(request, response, answer.response);
    return "forwarded";
  }

  /** The same for a handshake. Without an upgrade the answer is a refusal, which is passed on. */
  async upgrade(
    sandboxId: string,
    {
      request,
      connection,
      head,
      client,
      isForwarded,
    }: {
      request: IncomingMessage;
      connection: Duplex;
      head: Buffer;
      client: string;
      isForwarded: boolean;
    },
  ): Promise<Handling> {
    const gone = new AbortController();
    const leave = () => gone.abort();
    connection.once("close", leave);
    const { method = "GET", url = "/", headers } = request;
    const forwarded = { method, url, headers, client, body: undefined, signal: gone.signal };
    const answer = await this.#ask(sandboxId, forwarded, isForwarded).finally(() =>
      connection.off("close", leave),
    );
    if (answer === "here") return answer;
    connection.write(headOf(answer.response), "latin1");
    if (!("connection" in answer)) {
      pipeline([answer.response, connection], () => {});
      return "forwarded";
    }
    if (answer.head.length > 0) connection.write(answer.head);
    if (head.length > 0) answer.connection.write(head);
    splice(connection, answer.connection);
    return "forwarded";
  }

  /** Tries again while the node of a sandbox cannot be reached, because another one takes over. */
  async #ask(
    sandboxId: string,
    request: ForwardedRequest,
    isForwarded: boolean,
  ): Promise<NodeAnswer | "here"> {
    const deadline = performance.now() + takeoverMs;
    for (;;) {
      try {
        const node = await this.#ownership.locate(sandboxId);
        if (node === "here") return node;
        if (isForwarded) throw new PlatformError("SandboxHasMoved", { retryAfter: 1 });
        return await this.#client.send(node, request);
      } catch (error) {
        if (!isPassing(error) || performance.now() > deadline || request.signal.aborted) throw error;
      }
      await sleep(retryMs, undefined, { ref: false });
    }
  }
}

/** What another node or another attempt may mend. */
function isPassing(error: unknown): boolean {
  return error instanceof PlatformError && error.code === "NodeUnreachable";
}

function readBody(request: IncomingMessage): Readable | undefined {
  const { "content-length": length, "transfer-encoding": encoding } = request.headers;
  return encoding !== undefined || (length !== undefined && length !== "0") ? request : undefined;
}

function respond(request: IncomingMessage, response: ServerResponse, answer: IncomingMessage): void {
  const dropped = hopByHopHeaders(answer.headers.connection);
  const head: string[] = [];
  for (let index = 0; index < answer.rawHeaders.length; index += 2) {
    const name = answer.rawHeaders[index]!;
    if (!dropped.has(name.toLowerCase())) head.push(name, answer.rawHeaders[index + 1]!);
  }
  // The owner may answer before it has read the whole body.
  if (!request.complete) response.shouldKeepAlive = false;
  response.writeHead(answer.statusCode!, head);
  setImmediate(() => !response.writableEnded && response.flushHeaders());
  pipeline([answer, response], () => request.resume());
}

function headOf({ statusCode, statusMessage, rawHeaders }: IncomingMessage): string {
  const lines: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2)
    lines.push(`${rawHeaders[index]}: ${rawHeaders[index + 1]}\r\n`);
  return `HTTP/1.1 ${statusCode} ${statusMessage}\r\n${lines.join("")}\r\n`;
}
