import type { Dispatcher } from "undici";
import { PlatformError } from "../errors.ts";
import type { OutboundRequest } from "./api.ts";

const redirects = new Set([301, 302, 303, 307, 308]);

/** Headers that cannot be credentials; any other header may be one. */
const harmless = new Set(["accept", "accept-language", "content-type", "user-agent"]);

/**
 * The next request after a redirect; undefined when the answer is not one. Throws PlatformError
 * OutboundRefused when the redirect would send a body to another origin or leave TLS.
 */
export function followRedirect(
  from: URL,
  request: OutboundRequest,
  { statusCode, headers }: Dispatcher.ResponseData,
): { url: string; request: OutboundRequest } | undefined {
  const location = [headers.location].flat()[0];
  if (!redirects.has(statusCode) || location === undefined) return undefined;
  const to = URL.parse(location, from);
  if (!to) throw new PlatformError("RedirectInvalid", { host: from.host });
  if (from.protocol === "https:" && to.protocol === "http:") {
    throw new PlatformError("RedirectLeavesTls", { host: from.host });
  }
  const method = (request.method ?? "GET").toUpperCase();
  const becomesGet = statusCode === 303 ? method !== "HEAD" : statusCode < 303 && method === "POST";
  const next: OutboundRequest = becomesGet ? { ...request, method: "GET", body: undefined } : { ...request };
  if (to.origin !== from.origin) {
    if (next.body !== undefined) {
      throw new PlatformError("RedirectTakesBody", { host: from.host });
    }
    const kept = Object.entries(request.headers ?? {}).filter(([name]) => harmless.has(name.toLowerCase()));
    next.headers = Object.fromEntries(kept);
  }
  return { url: to.href, request: next };
}
