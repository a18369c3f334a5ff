import { hopByHopHeaders } from "@sandpiper/core/http-proxy";
import type { RawHeaders } from "../raw-headers.ts";

/** Drops hop-by-hop headers and the named ones. */
export function keepEndToEnd(headers: RawHeaders, ...without: string[]): RawHeaders {
  const pairs = toPairs(headers);
  const named = pairs.filter(([name]) => name.toLowerCase() === "connection").map(([, value]) => value);
  const dropped = new Set([...hopByHopHeaders(named.join()), ...without]);
  return pairs.filter(([name]) => !dropped.has(name.toLowerCase())).flat();
}

/** The headers on the wire, each with its line end. */
export function serializeHeaders(headers: RawHeaders): string {
  return toPairs(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");
}

function toPairs(headers: RawHeaders): [string, string][] {
  const pairs: [string, string][] = [];
  for (let index = 0; index + 1 < headers.length; index += 2)
    pairs.push([headers[index]!, headers[index + 1]!]);
  return pairs;
}
