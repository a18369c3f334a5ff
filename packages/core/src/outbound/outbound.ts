import { isIP } from "node:net";
import type { Agent, Dispatcher } from "undici";
import { PlatformError } from "../errors.ts";
import { isReachable, parseRanges } from "./addresses.ts";
import { checkedAgent, checkLiteral, isIn } from "./agents.ts";
import type { Outbound, OutboundRequest } from "./api.ts";
import { toResponse } from "./body.ts";
import { dial } from "./dial.ts";
import { followRedirect } from "./redirect.ts";
import { type Resolve, systemResolve } from "./resolve.ts";
import { connectThrough, isDirect, type UpstreamProxy } from "./upstream-proxy.ts";

const defaultTimeoutMs = 15_000;
const defaultMaxBytes = 8 * 1024 * 1024;
const maxRedirects = 5;
const maxUrlLength = 8_192;

export interface OutboundOptions {
  /**
   * Ranges in CIDR notation that may be reached in addition to public addresses. An invalid range
   * throws ConfigInvalid.
   */
  allowPrivate: readonly string[];
  /** Addresses of names; default: the machine's hosts file and name servers. */
  resolve?: Resolve;
  /** The operator's own proxy, which `connect` goes through. */
  proxy?: UpstreamProxy | undefined;
}

/** Makes the guarded way out. `close` ends its connections. */
export function createOutbound({
  allowPrivate,
  resolve = systemResolve(),
  proxy,
}: OutboundOptions): Outbound & { close(): Promise<void> } {
  const exempt = parseRanges(allowPrivate);
  const way = (isAllowed: (address: string) => boolean) => {
    let agent: Promise<Agent> | undefined;
    return {
      isAllowed,
      agent: () => (agent ??= checkedAgent(resolve, isAllowed)),
      close: async () => (await agent)?.destroy(),
    };
  };
  const anywhere = way((address) => isReachable(address, exempt));
  const allowedOnly = way(isIn(exempt));

  const send = async (
    url: URL,
    request: OutboundRequest,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData> => {
    const { isAllowed, agent } = request.secret && url.protocol === "http:" ? allowedOnly : anywhere;
    checkLiteral(url, isAllowed);
    const answer = await (await agent()).request({
      origin: url.origin,
      path: url.pathname + url.search,
      method: (request.method ?? "GET") as Dispatcher.HttpMethod,
      headers: { "user-agent": "sandpiper", "accept-encoding": "gzip", ...lowerCase(request.headers) },
      body: request.body ?? null,
      signal,
    });
    // The deadline destroys an unread answer; that error has no other listener.
    answer.body.on("error", () => {});
    return answer;
  };

  return {
    async fetch(text, options = {}) {
      const deadline = AbortSignal.timeout(options.timeoutMs ?? defaultTimeoutMs);
      const signal = options.signal ? AbortSignal.any([deadline, options.signal]) : deadline;
      let url = readUrl(text);
      let request = options;
      const explain = (error: unknown) => explained(error, url.host, options.signal, deadline);
      try {
        for (let hops = 0; ; hops++) {
          const answer = await send(url, request, signal);
          const next = request.redirect === "manual" ? undefined : followRedirect(url, request, answer);
          if (!next) return toResponse(answer, options.maxBytes ?? defaultMaxBytes, explain);
          answer.body.destroy();
          if (hops === maxRedirects)
            throw new PlatformError("TooManyRedirects", { host: url.host, maxRedirects });
          url = readUrl(next.url);
          request = next.request;
        }
      } catch (error) {
        throw explain(error);
      }
    },
    check(text) {
      checkLiteral(readUrl(text), anywhere.isAllowed);
    },
    async connect(destination, { trusted = false } = {}) {
      const isAllowed = trusted ? () => true : anywhere.isAllowed;
      const { host } = destination;
      if (!proxy || isDirect(proxy, host)) return dial(destination, { resolve, isAllowed });
      // Behind a proxy the machine may not know public names, but it knows its own network's. The
      // proxy chooses among the addresses of a name.
      const known = isIP(host) ? [host] : await resolve(host).catch(() => []);
      if (!known.every(isAllowed)) throw new PlatformError("AddressPrivate", { host });
      return connectThrough(proxy, destination);
    },
    async close() {
      await Promise.all([anywhere.close(), allowedOnly.close()]);
    },
  };
}

/** Throws PlatformError OutboundRefused for what is no plain web address. */
function readUrl(text: string): URL {
  const url = text.length <= maxUrlLength ? URL.parse(text) : null;
  if (!url || !/^https?:$/.test(url.protocol) || url.hostname === "") {
    throw new PlatformError("AddressInvalid");
  }
  if (url.username || url.password) {
    throw new PlatformError("AddressHasUserInfo", { host: url.host });
  }
  return url;
}

function lowerCase(headers: Record<string, string> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/**
 * Keeps refusals and the caller's own abort; any other error becomes one sentence without details.
 */
function explained(error: unknown, host: string, own: AbortSignal | undefined, deadline: AbortSignal): Error {
  if (error instanceof PlatformError) return error;
  if (own?.aborted) return own.reason as Error;
  if (deadline.aborted) return new PlatformError("HostTimeout", { host });
  const { code } = error as NodeJS.ErrnoException;
  // undici's InvalidArgumentError.
  if (code === "UND_ERR_INVALID_ARG") return new PlatformError("RequestInvalid");
  return new PlatformError(
    "HostUnreachable",
    { host, detail: code ? ` (${code})` : "" },
    {
      cause: error,
    },
  );
}
