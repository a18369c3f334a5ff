import { randomBytes, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname } from "node:path";
import type { Duplex } from "node:stream";
import { type Client, describeFailure } from "../client.ts";
import { CliError, exitCodes } from "../errors.ts";
import { forwardRequest, forwardUpgrade } from "./forward.ts";
import { makeCanvasPage, makeOpeningPage, makeProblemPage, type Page } from "./pages.ts";

/** First segments of the paths that belong to the server; all others are the GUI's. */
const serverPaths = new Set([
  ...["api", "agent", "sockets", "login", "logout", "behaviours"],
  ...["docs", "openapi.json", "server_info", "alive", "health", "ready"],
]);

const types: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".mp3": "audio/mpeg",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  ".webmanifest": "application/manifest+json",
  ".xml": "application/xml",
};

/** The names of this machine. Others are those of a page that points its own name here. */
const ownNames = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/;

export interface FrontOptions {
  /** Files of the GUI by their paths. */
  files: ReadonlyMap<string, Buffer>;
  client: Client;
  /** Addresses of the server that its answers may name. */
  origins: readonly string[];
  /** 0 takes a free one. */
  port: number;
}

/**
 * One address of this machine for the GUI's files and the server. It has no rights of its own: the
 * browser's cookie decides, and only the one-time token gives one.
 */
export class Front {
  readonly #files: ReadonlyMap<string, Buffer>;
  readonly #client: Client;
  readonly #target: URL;
  readonly #page: Page;
  readonly #http: Server;
  readonly #sockets = new Set<Duplex>();
  /** Cookies of the logins that the token gave. */
  readonly #logins: string[] = [];
  #token: string | undefined = randomBytes(24).toString("base64url");

  private constructor({ files, client, origins }: FrontOptions) {
    this.#files = files;
    this.#client = client;
    this.#target = new URL(client.url);
    this.#page = makeCanvasPage(files.get("/index.html")!.toString(), origins);
    this.#http = createServer((request, response) => void this.#answer(request, response));
    this.#http.requestTimeout = 0;
    this.#http.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
  }

  /** Throws CliError when the port is taken. */
  static async start(options: FrontOptions): Promise<Front> {
    const front = new Front(options);
    const { port } = options;
    await new Promise<void>((resolve, reject) => {
      front.#http.once("error", (error: NodeJS.ErrnoException) => reject(explain(error, port)));
      front.#http.listen(port, "127.0.0.1", resolve);
    });
    return front;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  /** The address that logs one browser in, once. */
  get openingUrl(): string {
    return `${this.url}/open#${this.#token}`;
  }

  /** Ends the connections and the logins. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#http.close(resolve));
    this.#http.closeAllConnections();
    for (const socket of this.#sockets) socket.destroy();
    const end = (cookie: string) =>
      fetch(`${this.#client.url}/logout`, { method: "POST", headers: { cookie } }).catch(() => {});
    await Promise.all([closed, ...this.#logins.map(end)]);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const fail = (error: unknown) => this.#sendUnreachable(response, error);
    const path = (request.url ?? "/").split("?", 1)[0]!;
    if (!ownNames.test(request.headers.host ?? "")) return sendText(response, 421, "Unknown host.");
    if (isServerPath(path)) return forwardRequest(request, response, this.#target, fail);
    try {
      if (path === "/open") await this.#open(request, response);
      else if (request.method !== "GET" && request.method !== "HEAD")
        sendText(response, 405, "Method not allowed.");
      else await this.#sendFile(path, request, response);
    } catch (error) {
      if (response.headersSent) response.destroy();
      else fail(error);
    }
  }

  async #sendFile(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const file = path === "/index.html" ? undefined : this.#files.get(path);
    if (file) {
      const lasting = path.startsWith("/assets/");
      response.writeHead(200, {
        "content-type": types[extname(path)] ?? "application/octet-stream",
        "content-length": file.length,
        "x-content-type-options": "nosniff",
        "cache-control": lasting ? "private, max-age=31536000, immutable" : "no-cache",
      });
      return void response.end(request.method === "HEAD" ? undefined : file);
    }
    if (extname(path) !== "" && path !== "/index.html") return sendText(response, 404, "Not found.");
    const { cookie = "" } = request.headers;
    const answer = await fetch(`${this.#client.url}/api/keys/current`, { headers: { cookie } });
    await answer.body?.cancel();
    if (answer.status === 401) {
      const next = encodeURIComponent(request.url!);
      response.writeHead(303, { location: `/login?next=${next}`, "cache-control": "no-store" });
      return void response.end();
    }
    sendPage(response, 200, this.#page);
  }

  /** Exchanges the token for the cookie of a login. */
  async #open(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== "POST") return sendPage(response, 200, makeOpeningPage());
    if (!this.#takes(await readToken(request))) return sendText(response, 401, "This address has been used.");
    const login = await fetch(`${this.#client.url}/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ key: this.#client.headers["X-Session-API-Key"] }),
    });
    if (!login.ok) throw new Error(`POST /login failed (${login.status})`);
    const cookies = login.headers.getSetCookie();
    this.#logins.push(cookies.map((cookie) => cookie.split(";", 1)[0]!).join("; "));
    response.writeHead(204, { "set-cookie": cookies, "cache-control": "no-store" });
    response.end();
  }

  /** Whether this is the token, which is used up then. */
  #takes(given: string): boolean {
    const token = Buffer.from(this.#token ?? "");
    const taken = token.length > 0 && given.length === token.length;
    if (!taken || !timingSafeEqual(Buffer.from(given), token)) return false;
    this.#token = undefined;
    return true;
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const path = (request.url ?? "/").split("?", 1)[0]!;
    if (!ownNames.test(request.headers.host ?? "") || !isServerPath(path)) return void socket.destroy();
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    forwardUpgrade(request, socket, head, this.#target);
  }

  #sendUnreachable(response: ServerResponse, error: unknown): void {
    const reason = describeFailure(error);
    const sentence = `The server at ${this.#client.url} could not be reached: ${reason}. Start it with "sandpiper serve", then run "sandpiper gui" again.`;
    sendPage(response, 502, makeProblemPage(sentence));
  }
}

/** Longest body that is read for a token, characters: anybody on the machine may send one. */
const maxTokenChars = 100;

/** The text of a body; of a longer one its beginning, and the rest is not read. */
async function readToken(request: IncomingMessage): Promise<string> {
  let given = "";
  for await (const chunk of request.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
    given += chunk;
    if (given.length > maxTokenChars) break;
  }
  return given;
}

function explain(error: NodeJS.ErrnoException, port: number): CliError {
  const sentence =
    error.code === "EADDRINUSE"
      ? `Port ${port} is taken: choose another one with --port, or 0 for a free one.`
      : `Port ${port} cannot be used: ${error.message}.`;
  return new CliError(sentence, { cause: error, exitCode: exitCodes.usage });
}

function isServerPath(path: string): boolean {
  return serverPaths.has(path.split("/", 2)[1] ?? "");
}

function sendPage(response: ServerResponse, status: number, { body, headers }: Page): void {
  response.writeHead(status, { ...headers, "content-length": body.length });
  response.end(body);
}

function sendText(response: ServerResponse, status: number, sentence: string): void {
  response.shouldKeepAlive = false;
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8", "cache-control": "no-store" });
  response.end(`${sentence}\n`);
}
