import { PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import { type Static, type TSchema, Type } from "typebox";
import { Value } from "typebox/value";

export interface ConnectionOptions {
  outbound: Outbound;
  /** Base URL of the provider's API, without a trailing slash. */
  api: string;
  /** Host name for messages. */
  host: string;
  /** Name of the provider for messages. */
  label: string;
  headers: Record<string, string>;
}

/** Query parameters; undefined ones are omitted. */
export type Query = Record<string, string | number | boolean | undefined>;

const GraphqlAnswer = Type.Object({
  data: Type.Optional(Type.Unknown()),
  errors: Type.Optional(Type.Array(Type.Object({ type: Type.Optional(Type.Unknown()) }))),
});

const timeoutMs = 20_000;
const maxBytes = 6 * 1024 * 1024;

/** Requests to one provider with one token. Responses are untrusted and validated. */
export class Connection {
  readonly host: string;
  readonly api: string;
  readonly #options: ConnectionOptions;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.host = options.host;
    this.api = options.api;
  }

  /**
   * Reads JSON that matches a schema. Throws RepositoryNotFound, BadRequest, ProviderTokenInvalid,
   * GitTokenTooWeak, GitProviderBusy, GitProviderFailed, and the errors of Outbound.
   */
  async get<T extends TSchema>(
    form: T,
    path: string,
    query: Query = {},
  ): Promise<{ value: Static<T>; headers: Headers }> {
    const response = await this.#send(path, query);
    return { value: this.#check(form, await this.#json(response)), headers: response.headers };
  }

  /** Reads text. */
  async text(path: string, query: Query = {}): Promise<string> {
    return await (await this.#send(path, query)).text();
  }

  /** Queries a GraphQL endpoint by its full URL. */
  async graphql<T extends TSchema>(
    form: T,
    url: string,
    query: string,
    variables: Record<string, unknown> = {},
  ): Promise<Static<T>> {
    const response = await this.#fetch(url, { method: "POST", body: JSON.stringify({ query, variables }) });
    const { data, errors = [] } = this.#check(GraphqlAnswer, await this.#json(response));
    if (errors[0]?.type === "NOT_FOUND") throw this.#missing();
    if (errors[0]?.type === "RATE_LIMITED") throw this.#busy(getRetryAfter(429, response.headers)!);
    // Parts that the token may not see are null and listed in `errors`.
    return this.#check(form, data);
  }

  #send(path: string, query: Query): Promise<Response> {
    const given = Object.entries(query).filter(([, value]) => value !== undefined);
    const search = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
    return this.#fetch(`${this.api}${path}${search && `?${search}`}`);
  }

  async #fetch(url: string, init: { method?: string; body?: string } = {}): Promise<Response> {
    const { outbound, headers } = this.#options;
    const type: Record<string, string> =
      init.body === undefined ? {} : { "content-type": "application/json" };
    const response = await outbound.fetch(url, {
      ...init,
      headers: { accept: "application/json", ...headers, ...type },
      ...{ timeoutMs, maxBytes, secret: true },
    });
    if (response.ok) return response;
    await response.body?.cancel();
    throw this.#failure(response);
  }

  async #json(response: Response): Promise<unknown> {
    try {
      return JSON.parse(await response.text());
    } catch (error) {
      if (error instanceof PlatformError) throw error;
      throw this.#strange();
    }
  }

  #check<T extends TSchema>(form: T, value: unknown): Static<T> {
    if (!Value.Check(form, value)) throw this.#strange();
    return value as Static<T>;
  }

  #missing(): PlatformError {
    return new PlatformError("GitItemMissing", { label: this.#options.label });
  }

  #busy(seconds: number): PlatformError {
    return new PlatformError(
      "GitRateLimited",
      { label: this.#options.label, seconds },
      { retryAfter: seconds },
    );
  }

  #strange(): PlatformError {
    return new PlatformError("GitAnswerInvalid", { host: this.host, label: this.#options.label });
  }

  #failure({ status, headers }: Response): PlatformError {
    const { label } = this.#options;
    if (status === 401) return new PlatformError("GitTokenInvalid", { label: label.toLowerCase() });
    const wait = getRetryAfter(status, headers);
    if (wait !== undefined) return this.#busy(wait);
    if (status === 403) {
      return new PlatformError("GitScopeMissing", { label });
    }
    // 409 means an empty repository.
    if (status === 404 || status === 409 || status === 410) return this.#missing();
    if (status === 400 || status === 422) return new PlatformError("GitRequestRefused", { label });
    return new PlatformError("GitStatusUnexpected", { label, host: this.host, status });
  }
}

/** Seconds until the rate limit ends; undefined when the response is not about a rate limit. */
function getRetryAfter(status: number, headers: Headers): number | undefined {
  const used =
    status === 403 &&
    ["x-ratelimit-remaining", "ratelimit-remaining"].some((name) => headers.get(name) === "0");
  const after = headers.get("retry-after");
  if (status !== 429 && !used && !(status === 403 && after !== null)) return undefined;
  if (after !== null && /^\d{1,6}$/.test(after)) return clampSeconds(Number(after));
  const reset = headers.get("x-ratelimit-reset") ?? headers.get("ratelimit-reset");
  return clampSeconds(reset !== null && /^\d{1,11}$/.test(reset) ? Number(reset) - Date.now() / 1000 : 60);
}

function clampSeconds(seconds: number): number {
  return Math.min(3_600, Math.max(1, Math.ceil(seconds)));
}
