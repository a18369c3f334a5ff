import type { AllowRule } from "../driver.ts";

/** A configured allow rule: `github.com`, `*.example.com:443`, or an object. */
export type WrittenRule =
  | string
  | { host: string; ports?: number[] | undefined; methods?: string[] | undefined };

const webPorts = [80, 443];
const name = /^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9])?$/i;
const ipv6 = /^\[([0-9a-f:.]+)\]$/i;

/** Undefined for an invalid host. Default ports are 80 and 443. */
export function parseAllowRule(written: WrittenRule): AllowRule | undefined {
  const { host: text, ports, methods } = typeof written === "string" ? { host: written } : written;
  const [, host = "", port] = /^(.*?)(?::(\d{1,5}))?$/.exec(text) ?? [];
  if (!isHostPattern(host) || (port !== undefined && (ports || !isPort(Number(port))))) return undefined;
  return {
    host: host.toLowerCase().replace(ipv6, "$1"),
    ports: port === undefined ? (ports ?? webPorts) : [Number(port)],
    methods: methods?.map((method) => method.toUpperCase()) ?? null,
  };
}

/** True for `example.com`, `*.example.com`, and an address (IPv6 in brackets). */
export function isHostPattern(text: string): boolean {
  if (ipv6.test(text)) return URL.canParse(`http://${text}/`);
  return text.length <= 253 && name.test(text.replace(/^\*\./, ""));
}

function isPort(port: number): boolean {
  return port >= 1 && port <= 65_535;
}
