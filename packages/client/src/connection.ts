import { RequestError, readFailure } from "./errors.ts";

/** What the client can send as a body that is not JSON. A stream is sent while it is read. */
export type Content = string | Uint8Array | Blob | ReadableStream<Uint8Array>;

/** Values of a query; undefined and null are left out, and a list repeats its key. */
export type Query = Readonly<
  Record<string, string | number | boolean | readonly string[] | null | undefined>
>;

export interface CallOptions {
  /** Ends the request; it rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Instead of the client's time-out, ms. */
  timeoutMs?: number | undefined;
}

export interface RequestOptions extends CallOptions {
  query?: Query | undefined;
  /** A body that is sent as JSON. */
  json?: unknown;
  /** A body that is sent as it is. */
  content?: Content | undefined;
  /** Media type of `content`. */
  type?: string | undefined;
}

export interface ConnectionOptions {
  /** Address of the server, such as `http://127.0.0.1:3000`. */
  url: string;
  /** An API key, or the session key of a sandbox. Without one, a browser uses its login cookie. */
  key?: string | undefined;
  /** Time for a response with its JSON, or for the head of a stream, ms. */
  timeoutMs?: number | undefined;
}

const defaultTimeoutMs = 60_000;

/** Longest time of a timer, ms. */
const maxTimerMs = 2 ** 31 - 1;

/** Sends requests to one server. All methods reject with `RequestError`, or the signal's reason. */
export class Connection {
  /** Without a slash at the end. */
  readonly url: string;
  readonly key: string | undefined;
  readonly #timeoutMs: number;

  constructor({ url, key, timeoutMs = defaultTimeoutMs }: ConnectionOptions) {
    let end = url.length;
    while (url[end - 1] === "/") end--;
    this.url = url.slice(0, end);
    this.key = key;
    this.#timeoutMs = timeoutMs;
  }

  get<T>(path: string, query?: Query, options?: CallOptions): Promise<T> {
    return this.json("GET", path, { ...options, query });
  }

  post<T>(path: string, json?: unknown, options?: RequestOptions): Promise<T> {
    return this.json("POST", path, { ...options, json });
  }

  /** Sends a request and returns the JSON of its response. */
  json<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    return this.#within(method, path, options, async (signal) => {
      const response = await this.#send(method, path, options, signal);
      const text = await response.text();
      try {
        return JSON.parse(text) as T;
      } catch (cause) {
        const detail = `${this.url} did not answer with JSON: it is probably not a Sandpiper server.`;
        const failure = { method, path, status: response.status, code: "Unreadable" as const, detail };
        throw new RequestError(failure, { cause });
      }
    });
  }

  /** Sends a request and returns its response; the caller reads the body. */
  response(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    return this.#within(method, path, options, (signal) => this.#send(method, path, options, signal));
  }

  /** Sends a request and returns the body of its response as it arrives. */
  async stream(path: string, query?: Query, options?: CallOptions): Promise<ReadableStream<Uint8Array>> {
    const { body } = await this.response("GET", path, { ...options, query });
    return body ?? new Blob([]).stream();
  }

  async #send(
    method: string,
    path: string,
    { query, json, content, type }: RequestOptions,
    signal: AbortSignal,
  ): Promise<Response> {
    const isJson = json !== undefined;
    const contentType = isJson ? "application/json" : type;
    const init = {
      method,
      signal,
      // A key goes to no other server.
      redirect: "error" as const,
      headers: {
        ...(this.key !== undefined && { "X-Session-API-Key": this.key }),
        ...(contentType !== undefined && { "Content-Type": contentType }),
      },
      ...((isJson || content !== undefined) && { body: isJson ? JSON.stringify(json) : content }),
      ...(content instanceof ReadableStream && { duplex: "half" }),
    };
    const response = await fetch(this.url + path + toQuery(query), init as RequestInit);
    if (!response.ok) throw await readFailure(response, { method, path });
    return response;
  }

  /** Gives work a signal that ends with the caller's signal and with the time-out. */
  async #within<T>(
    method: string,
    path: string,
    { signal, timeoutMs = this.#timeoutMs }: CallOptions,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const late = new AbortController();
    const timer =
      timeoutMs === Number.POSITIVE_INFINITY
        ? undefined
        : setTimeout(() => late.abort(), Math.min(timeoutMs, maxTimerMs));
    try {
      return await work(signal ? AbortSignal.any([signal, late.signal]) : late.signal);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof RequestError) throw error;
      const [code, detail] = late.signal.aborted
        ? (["TimedOut", `The server at ${this.url} did not answer within ${timeoutMs / 1000} s.`] as const)
        : (["Unreachable", `The server at ${this.url} could not be reached: ${describe(error)}.`] as const);
      throw new RequestError({ method, path, status: 0, code, detail }, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
}

/**
 * Puts ids into a path. Throws RangeError for an id that would change the path itself, such as an
 * empty one.
 */
export function path(texts: TemplateStringsArray, ...ids: readonly string[]): string {
  return texts.reduce((start, text, index) => {
    const id = ids[index - 1]!;
    if (id === "" || id === "." || id === "..") throw new RangeError(`"${id}" is not an id.`);
    return `${start}${encodeURIComponent(id)}${text}`;
  });
}

function toQuery(query: Query = {}): string {
  const pairs = Object.entries(query).flatMap(([name, value]) => {
    const values = Array.isArray(value) ? value : [value];
    return values.filter((each) => each !== undefined && each !== null).map((each) => [name, String(each)]);
  });
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
}

/** Why a connection failed, in a few words. */
function describe(error: unknown): string {
  const { cause = error } = error as { cause?: unknown };
  const { code, message } = cause as { code?: string; message?: string };
  if (code === "ENOTFOUND") return "its name is unknown";
  return code === "ECONNREFUSED" ? "nothing listens there" : message || code || "the connection failed";
}
