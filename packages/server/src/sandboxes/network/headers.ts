import type { RawHeaders } from "./credentials.ts";

const hopByHop = new Set([
  ...["connection", "proxy-connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings"],
  ...["proxy-authorization", "proxy-authenticate", "proxy-authentication-info"],
]);

/** Header lines that belong to the message, not to one connection. `Expect` has been answered by the proxy already. */
export function endToEnd(headers: RawHeaders, ...without: string[]): RawHeaders {
  const pairs = pairsOf(headers);
  const named = pairs
    .filter(([name]) => name.toLowerCase() === "connection")
    .flatMap(([, value]) => value.toLowerCase().split(/\s*,\s*/));
  const dropped = new Set([...named, ...without, "expect"]);
  return pairs.filter(([name]) => !hopByHop.has(name.toLowerCase()) && !dropped.has(name.toLowerCase())).flat();
}

/** The header lines as they stand on the wire, each with its line end. */
export function headerText(headers: RawHeaders): string {
  return pairsOf(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("");
}

function pairsOf(headers: RawHeaders): [string, string][] {
  const pairs: [string, string][] = [];
  for (let index = 0; index + 1 < headers.length; index += 2) pairs.push([headers[index]!, headers[index + 1]!]);
  return pairs;
}
