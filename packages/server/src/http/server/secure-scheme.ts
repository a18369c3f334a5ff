import type { IncomingMessage } from "node:http";
import { parseRanges } from "@sandpiper/core/outbound/addresses";
import type { Config } from "../../config/config.ts";
import { isInRanges } from "./limits/request-limit.ts";

/** Whether a browser sends a request over https. */
export type IsSecure = (request: Pick<IncomingMessage, "socket" | "headers">) => boolean;

/**
 * Reads the scheme from the public URL, or without one from `X-Forwarded-Proto` of a trusted proxy:
 * the listener itself speaks http.
 */
export function makeIsSecure({
  publicUrl,
  trustedProxies,
}: Pick<Config, "publicUrl" | "trustedProxies">): IsSecure {
  const proxies = parseRanges(trustedProxies);
  return ({ socket, headers }) => {
    if (publicUrl !== undefined) return publicUrl.startsWith("https:");
    if (!isInRanges(socket.remoteAddress ?? "", proxies)) return false;
    return (
      String(headers["x-forwarded-proto"] ?? "")
        .split(",")
        .at(-1)!
        .trim() === "https"
    );
  };
}
