import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Answer, Dialect, ScriptedToolCall } from "./model-answer.ts";
import type { SeenMessage } from "./model-wire-parts.ts";
import { eventsOf } from "./model-wire-replies.ts";
import { readRequest, type Wire, wireOf } from "./model-wire-requests.ts";

/**
 * A scripted model behind real HTTP. It speaks streaming OpenAI chat completions and responses,
 * Anthropic messages, Google generateContent and Bedrock's Converse, whichever path is asked for,
 * so a test drives the real provider code:
 *
 *     const call = { name: "terminal", arguments: { command: "ls" } };
 *     const server = await startModelServer(({ index }) =>
 *       index === 0 ? reply.toolCalls([call]) : reply.text("Done."));
 *     settings = { llm_model: "openai/scripted", llm_base_url: server.url };
 *     …
 *     expect(server.requests[1]!.messages.at(-1)!.text).toContain("README");
 *     await server.close();
 *
 * Names that fit: `openai/<any>` (or any bare name), `openai/responses/<any>`, `anthropic/<any>`,
 * `gemini/<any>`, `bedrock/<any>`, each with `server.url` as base URL.
 * A script is a function (it may be async: await a promise of the test's to hold an answer back) or
 * a list of replies, one for each request; a request beyond its end, or a script that throws, is
 * answered 400 with the reason.
 */
export async function startModelServer(
  script: Script | Reply[],
  options: { dialect?: Dialect; port?: number } = {},
): Promise<ModelServer> {
  const requests: ModelRequestSeen[] = [];
  const server = createServer((request, response) => {
    answer(request, response, { script, dialect: options.dialect }, requests).catch((error) =>
      response.destroy(error),
    );
  });
  server.listen(options.port ?? 0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

export interface ModelServer {
  /** Base URL without a path, for `llm_base_url`. */
  url: string;
  /** Every request so far, in order of arrival. */
  requests: ModelRequestSeen[];
  close(): Promise<void>;
}

export type Script = (request: ModelRequestSeen) => Reply | Promise<Reply>;

export interface ModelRequestSeen {
  wire: Wire;
  /** From 0. */
  index: number;
  path: string;
  headers: IncomingHttpHeaders;
  /** The key as it arrived, from whichever header the wire uses. */
  apiKey: string | undefined;
  body: any;
  /** The system prompt, blocks joined by blank lines. */
  system: string;
  /** The conversation in one shape for all wires. */
  messages: SeenMessage[];
  /** Names of the offered tools. */
  tools: string[];
  /**
   * Settles once the exchange is over: true when the answer was sent whole, false when the client
   * went away before.
   */
  finished: Promise<boolean>;
}

export type Reply =
  | { kind: "answer"; answer: Answer }
  | { kind: "error"; status: number; body: unknown; headers: Record<string, string> }
  | { kind: "bytes"; headers: Record<string, string>; chunks: Iterable<string | Buffer> }
  | { kind: "hang" }
  | { kind: "disconnect" };

export const reply = {
  text: (text: string, more: Answer = {}): Reply => ({ kind: "answer", answer: { ...more, text } }),
  toolCalls: (toolCalls: ScriptedToolCall[], more: Answer = {}): Reply => ({
    kind: "answer",
    answer: { ...more, toolCalls },
  }),
  /** Anything, an empty answer included. */
  answer: (answer: Answer): Reply => ({ kind: "answer", answer }),
  /**
   * `body` as text is sent as it is; an object as JSON. Default: `{error:{message:"scripted error
   * <status>"}}`.
   */
  error: (
    status: number,
    body: unknown = { error: { message: `scripted error ${status}` } },
    headers: Record<string, string> = {},
  ): Reply => ({
    kind: "error",
    status,
    body,
    headers,
  }),
  /** A 200 with these bytes as they are, as long as the client takes them. */
  bytes: (
    chunks: Iterable<string | Buffer>,
    headers: Record<string, string> = { "content-type": "text/event-stream" },
  ): Reply => ({
    kind: "bytes",
    headers,
    chunks,
  }),
  /** Takes the request and never answers. */
  hang: (): Reply => ({ kind: "hang" }),
  /** Takes the request and closes the connection. */
  disconnect: (): Reply => ({ kind: "disconnect" }),
};

async function answer(
  incoming: IncomingMessage,
  response: ServerResponse,
  { script, dialect }: { script: Script | Reply[]; dialect: Dialect | undefined },
  requests: ModelRequestSeen[],
) {
  const closed = new Promise<boolean>((resolve) =>
    response.once("close", () => resolve(response.writableFinished)),
  );
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk);
  const path = incoming.url ?? "";
  const wire = wireOf(path);
  if (!wire) return sendError(response, 404, { error: { message: `no such path: ${path}` } }, {});
  const body = JSON.parse(Buffer.concat(chunks).toString());
  const { headers } = incoming;
  const signer = /^AWS4-HMAC-SHA256 Credential=([^/]+)\//.exec(headers.authorization ?? "")?.[1];
  const apiKey =
    signer ??
    headers.authorization?.replace(/^Bearer /, "") ??
    headers["x-api-key"] ??
    headers["x-goog-api-key"];
  const seen: ModelRequestSeen = {
    wire,
    index: requests.length,
    path,
    headers,
    apiKey: apiKey as string | undefined,
    body,
    ...readRequest(wire, body),
    finished: closed,
  };
  requests.push(seen);
  const next = await nextReply(script, seen);
  if (next.kind === "disconnect") response.destroy();
  else if (next.kind === "error") sendError(response, next.status, next.body, next.headers);
  else if (next.kind === "bytes") await sendBytes(response, next.headers, next.chunks);
  else if (next.kind === "answer") await sendAnswer(response, seen, next.answer, dialect);
}

async function nextReply(script: Script | Reply[], request: ModelRequestSeen): Promise<Reply> {
  if (Array.isArray(script)) {
    return (
      script[request.index] ??
      reply.error(400, { error: { message: `the script has no reply number ${request.index}` } })
    );
  }
  try {
    return await script(request);
  } catch (error) {
    return reply.error(400, { error: { message: `the script threw: ${error}` } });
  }
}

function sendError(response: ServerResponse, status: number, body: unknown, headers: Record<string, string>) {
  const isText = typeof body === "string";
  response.writeHead(status, { "content-type": isText ? "text/plain" : "application/json", ...headers });
  response.end(isText ? body : JSON.stringify(body));
}

async function sendBytes(
  response: ServerResponse,
  headers: Record<string, string>,
  chunks: Iterable<string | Buffer>,
) {
  response.writeHead(200, headers);
  for (const chunk of chunks) {
    const failed = await new Promise((resolve) => response.write(chunk, resolve));
    if (failed || response.destroyed) return;
  }
  response.end();
}

async function sendAnswer(
  response: ServerResponse,
  request: ModelRequestSeen,
  answer: Answer,
  dialect?: Dialect,
) {
  const type = request.wire === "bedrock" ? "application/vnd.amazon.eventstream" : "text/event-stream";
  const id = answer.id ?? `request-${request.index}`;
  response.writeHead(200, { "content-type": type, "cache-control": "no-cache", "x-amzn-requestid": id });
  response.flushHeaders();
  const events = eventsOf(request.wire, answer, request.index, dialect);
  for (const [position, event] of events.entries()) {
    if (answer.paceMs) await sleep(answer.paceMs);
    if (response.destroyed || position === answer.stallAfter) return;
    if (position === answer.cutAfter) return void response.destroy();
    if (position === answer.endAfter) break;
    await write(response, position === answer.malformedAt ? "data: {not json\n\n" : event, answer.writeBytes);
  }
  if (answer.stallAfter !== undefined && answer.stallAfter >= events.length) return;
  response.end();
}

/**
 * Writes and waits until the bytes are on their way, so that a cut or a split happens where it was
 * asked for.
 */
async function write(response: ServerResponse, event: string | Buffer, writeBytes: number | undefined) {
  const bytes = typeof event === "string" ? Buffer.from(event) : event;
  const size = writeBytes ?? bytes.length;
  for (let start = 0; start < bytes.length && !response.destroyed; start += size) {
    await new Promise<void>((resolve) =>
      response.write(bytes.subarray(start, start + size), () => resolve()),
    );
    if (writeBytes) await sleep(0);
  }
}
