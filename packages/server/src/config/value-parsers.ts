import { parseRanges } from "@sandpiper/core/outbound/addresses";
import { parseSize } from "@sandpiper/core/size";
import { trimTail } from "@sandpiper/core/trim";
import type { DockerHost } from "@sandpiper/sandbox/drivers/docker/engine";

/** Parsers of the values of variables; each gives undefined for an invalid text. */

export function parseInteger(text: string, min: number, max: number): number | undefined {
  if (!/^\d{1,15}$/.test(text)) return undefined;
  const value = Number(text);
  return value >= min && value <= max ? value : undefined;
}

export function parseBytes(text: string, min: number, max: number): number | undefined {
  const value = parseSize(text);
  return value !== undefined && value >= min && value <= max ? value : undefined;
}

/** Bytes from 1 MiB to 16 TiB; 0: no limit. */
export function parseQuota(text: string): number | undefined {
  return text === "0" ? 0 : parseBytes(text, 2 ** 20, 2 ** 44);
}

/** Milliseconds of a whole number of units. */
export function parseDuration(text: string, max: number, unitMs: number): number | undefined {
  const count = parseInteger(text, 0, max);
  return count === undefined ? undefined : count * unitMs;
}

export function parseFilePath(text: string): string | undefined {
  return text.includes("\0") || text.endsWith("/") ? undefined : text;
}

export function parseDockerHost(text: string): DockerHost | undefined {
  const socketPath = /^(?:unix:\/\/)?(\/[^\0]*[^\0/])$/.exec(text)?.[1];
  if (socketPath !== undefined) return { socketPath };
  const url = /^(tcp|https?):\/\//.test(text) ? parsePlainUrl(text.replace(/^tcp:/, "http:")) : undefined;
  if (url?.pathname !== "/") return undefined;
  const protocol = url.protocol === "https:" ? "https" : "http";
  return {
    protocol,
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: Number(url.port || (protocol === "https" ? 2376 : 2375)),
  };
}

export function isIpv6(text: string): boolean {
  return text.includes(":") && URL.canParse(`http://[${text}]/`);
}

export function parseWebUrl(text: string): URL | undefined {
  const url = URL.parse(text);
  return url && /^https?:$/.test(url.protocol) && !url.username && !url.password ? url : undefined;
}

function parsePlainUrl(text: string): URL | undefined {
  return /[?#\s]/.test(text) ? undefined : parseWebUrl(text);
}

export function parsePublicUrl(text: string): string | undefined {
  const url = parsePlainUrl(text);
  return url && trimTail(url.href, "/");
}

/** An http address of a host and a port, without anything else. */
export function parseNodeUrl(text: string): string | undefined {
  const url = parsePlainUrl(text);
  return url?.protocol === "http:" && url.pathname === "/" ? url.origin : undefined;
}

export function parseRangeList(text: string): string[] | undefined {
  const parts = text.split(",").map((part) => part.trim());
  try {
    parseRanges(parts);
    return parts;
  } catch {
    return undefined;
  }
}

export function parseOrigins(text: string): string[] | undefined {
  const parts = text.split(",").map((part) => part.trim());
  const urls = parts.map((part) => parsePlainUrl(part));
  return urls.every((url) => url?.pathname === "/") ? urls.map((url) => url!.origin) : undefined;
}

/** Parses `docker.io,*.example.com,registry.lan:5000`; undefined for any other text. */
export function parseRegistries(text: string): string[] | undefined {
  const names = text.split(",").map((name) => name.trim());
  const isRegistry = (name: string) =>
    /^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:\d{1,5})?$/.test(name);
  return names.every(isRegistry) ? names : undefined;
}

/** The name of an object of a Kubernetes cluster; undefined for any other text. */
export function parseObjectName(text: string): string | undefined {
  return /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(text) ? text : undefined;
}

/** Parses a list of names of objects of Kubernetes, separated by commas. */
export function parseObjectNames(text: string): string[] | undefined {
  const names = text.split(",").map((name) => parseObjectName(name.trim()));
  return names.every((name) => name !== undefined) ? names : undefined;
}
