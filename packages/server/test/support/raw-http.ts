import { once } from "node:events";
import { connect, type Socket } from "node:net";

export interface RawAnswer {
  status: number;
  headers: Record<string, string>;
  body: Buffer;
  /** Parsed where it is JSON. */
  json: any;
}

/** Header lines of a client, in its order. */
type Style = (request: {
  method: string;
  host: string;
  body: Buffer | undefined;
  headers: Record<string, string>;
}) => string[];

const lines = (headers: Record<string, string>) =>
  Object.entries(headers).map(([name, value]) => `${name}: ${value}`);

/**
 * httpx 0.28, as in the Python client; bodies are `json.dumps(…, ensure_ascii=False,
 * separators=(",", ":"))`.
 */
export const httpx =
  (key?: string): Style =>
  ({ host, body, headers }) => [
    `Host: ${host}`,
    "Accept: */*",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Connection: keep-alive",
    "User-Agent: python-httpx/0.28.1",
    ...(key === undefined ? [] : [`X-Session-API-Key: ${key}`]),
    ...(body === undefined ? [] : [`Content-Length: ${body.length}`]),
    ...lines(headers),
  ];

/** axios in Chromium on a page of the same server; a proxy in front of the page adds the key. */
export const browser =
  (key: string): Style =>
  ({ method, host, body, headers }) => [
    `Host: ${host}`,
    "Connection: keep-alive",
    ...(body === undefined ? [] : [`Content-Length: ${body.length}`]),
    'sec-ch-ua-platform: "Linux"',
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
    "Accept: application/json, text/plain, */*",
    'sec-ch-ua: "Chromium";v="141", "Not?A_Brand";v="8"',
    ...lines(headers),
    "sec-ch-ua-mobile: ?0",
    ...(method === "GET" ? [] : [`Origin: http://${host}`]),
    "Sec-Fetch-Site: same-origin",
    "Sec-Fetch-Mode: cors",
    "Sec-Fetch-Dest: empty",
    `Referer: http://${host}/`,
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Accept-Language: en-US,en;q=0.9",
    `X-Session-API-Key: ${key}`,
  ];

/** Sends requests with the very bytes of a client, over one connection that is kept alive. */
export class RawHttp {
  readonly #base: URL;
  readonly #style: Style;
  #socket: Socket | undefined;
  #received = Buffer.alloc(0);

  constructor(baseUrl: string, style: Style) {
    this.#base = new URL(baseUrl);
    this.#style = style;
  }

  get(path: string, headers: Record<string, string> = {}): Promise<RawAnswer> {
    return this.#send("GET", path, headers);
  }

  patch(path: string, body: unknown): Promise<RawAnswer> {
    return this.#send(
      "PATCH",
      path,
      { "Content-Type": "application/json" },
      Buffer.from(JSON.stringify(body)),
    );
  }

  delete(path: string, headers: Record<string, string> = {}): Promise<RawAnswer> {
    return this.#send("DELETE", path, headers);
  }

  /** Without a body: `Content-Length: 0` and no type. */
  post(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<RawAnswer> {
    if (body === undefined) return this.#send("POST", path, headers, Buffer.alloc(0));
    return this.#send(
      "POST",
      path,
      { "Content-Type": "application/json", ...headers },
      Buffer.from(JSON.stringify(body)),
    );
  }

  /** `files={"file": (name, content)}`. */
  upload(path: string, name: string, content: Buffer): Promise<RawAnswer> {
    const boundary = "1c7a9b2f5d8e4036a1b2c3d4e5f60718";
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${name}"\r\nContent-Type: application/octet-stream\r\n\r\n`;
    const body = Buffer.concat([Buffer.from(head), content, Buffer.from(`\r\n--${boundary}--\r\n`)]);
    return this.#send("POST", path, { "Content-Type": `multipart/form-data; boundary=${boundary}` }, body);
  }

  close(): void {
    this.#socket?.destroy();
  }

  async #send(
    method: string,
    path: string,
    headers: Record<string, string>,
    body?: Buffer,
  ): Promise<RawAnswer> {
    const { host, pathname } = this.#base;
    const target = `${pathname === "/" ? "" : pathname}${path}`;
    const head = [`${method} ${target} HTTP/1.1`, ...this.#style({ method, host, body, headers })];
    const socket = await this.#connected();
    socket.write(`${head.join("\r\n")}\r\n\r\n`);
    if (body && body.length > 0) socket.write(body);
    return this.#answer(socket);
  }

  async #connected(): Promise<Socket> {
    if (this.#socket && !this.#socket.destroyed) return this.#socket;
    const socket = connect(Number(this.#base.port), this.#base.hostname);
    this.#socket = socket;
    await once(socket, "connect");
    return socket;
  }

  async #answer(socket: Socket): Promise<RawAnswer> {
    for (;;) {
      const whole = this.#take();
      if (whole) return whole;
      const [piece] = (await once(socket, "data", { signal: AbortSignal.timeout(150_000) })) as [Buffer];
      this.#received = Buffer.concat([this.#received, piece]);
    }
  }

  /** The first complete answer in the received bytes. */
  #take(): RawAnswer | undefined {
    const end = this.#received.indexOf("\r\n\r\n");
    if (end < 0) return undefined;
    const [first, ...rows] = this.#received.subarray(0, end).toString("latin1").split("\r\n");
    const headers = Object.fromEntries(
      rows.map((line) => [line.split(":", 1)[0]!.toLowerCase(), line.replace(/^[^:]*:\s*/, "")]),
    );
    const rest = this.#received.subarray(end + 4);
    const found =
      headers["transfer-encoding"] === "chunked"
        ? chunked(rest)
        : counted(rest, Number(headers["content-length"] ?? 0));
    if (!found) return undefined;
    this.#received = rest.subarray(found.length);
    const { body } = found;
    const isJson = headers["content-type"]?.startsWith("application/json");
    return {
      status: Number(first!.split(" ")[1]),
      headers,
      body,
      json: isJson ? JSON.parse(body.toString()) : undefined,
    };
  }
}

function counted(bytes: Buffer, length: number): { body: Buffer; length: number } | undefined {
  return bytes.length < length ? undefined : { body: bytes.subarray(0, length), length };
}

function chunked(bytes: Buffer): { body: Buffer; length: number } | undefined {
  const parts: Buffer[] = [];
  for (let at = 0; ; ) {
    const end = bytes.indexOf("\r\n", at);
    if (end < 0) return undefined;
    const size = Number.parseInt(bytes.subarray(at, end).toString(), 16);
    const next = end + 2 + size + 2;
    if (bytes.length < next) return undefined;
    if (size === 0) return { body: Buffer.concat(parts), length: next };
    parts.push(bytes.subarray(end + 2, end + 2 + size));
    at = next;
  }
}
