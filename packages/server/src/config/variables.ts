import { join } from "node:path";

/** Environment of a process, as `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A variable that configures the server: the parser, `serve --help` and docs/configuration.md all come from this table. */
export interface Variable<T = unknown> {
  name: `SANDPIPER_${string}`;
  /** What it sets, as a sentence without its full stop. */
  meaning: string;
  /** The default as documentation shows it. */
  defaultText: string;
  defaultValue(env: Environment): T;
  /** What a value must be, in the words that follow "must be". */
  must: string;
  /** The value of a text that is not empty, or undefined when the text is wrong. */
  parse(text: string): T | undefined;
  /** The value is never shown, not even when it is wrong. */
  secret?: boolean;
}

const logLevels = ["fatal", "error", "warn", "info", "debug", "silent"] as const;
const mebibyte = 1024 * 1024;
const gibibyte = 1024 * mebibyte;
const sizeMust = "a number of bytes, or one with the suffix K, M, G or T";

/** Every variable of the server, by the name of what it sets. */
export const variables = {
  host: variable<string>({
    name: "SANDPIPER_HOST",
    meaning: "Address to listen on; 0.0.0.0 opens the server to the network",
    defaultText: "127.0.0.1",
    defaultValue: () => "127.0.0.1",
    must: "a host name or an IP address, without a port",
    parse: (text) => (/^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/.test(text) || isIpv6(text) ? text : undefined),
  }),
  port: variable<number>({
    name: "SANDPIPER_PORT",
    meaning: "Port to listen on; 0 takes a free one",
    defaultText: "3000",
    defaultValue: () => 3000,
    must: "a whole number from 0 to 65535",
    parse: (text) => wholeNumber(text, 0, 65_535),
  }),
  dataDir: variable<string>({
    name: "SANDPIPER_DATA",
    meaning: "Folder for the database, keys and sandboxes; it is made when it is missing",
    defaultText: "~/.local/share/sandpiper",
    defaultValue: (env) => join(env.XDG_DATA_HOME || join(env.HOME || "/root", ".local/share"), "sandpiper"),
    must: "the path of a folder, other than /",
    parse: (text) => (text.includes("\0") || /^\/+$/.test(text) ? undefined : text),
  }),
  apiKey: variable<string | undefined>({
    name: "SANDPIPER_API_KEY",
    meaning: "Key that clients send; without it, one is made at the first start, printed once and kept",
    defaultText: "made at the first start",
    defaultValue: () => undefined,
    must: "16 to 256 printable ASCII characters without spaces",
    parse: (text) => (/^[\x21-\x7e]{16,256}$/.test(text) ? text : undefined),
    secret: true,
  }),
  publicUrl: variable<string | undefined>({
    name: "SANDPIPER_PUBLIC_URL",
    meaning: "Address under which clients reach the server, where a proxy stands before it",
    defaultText: "made from host and port",
    defaultValue: () => undefined,
    must: "an http or https address without user, query or fragment",
    parse: publicUrl,
  }),
  runtime: variable<string | undefined>({
    name: "SANDPIPER_RUNTIME",
    meaning: "OCI runtime that starts sandboxes, by name or absolute path",
    defaultText: "crun, else runc",
    defaultValue: () => undefined,
    must: "the name or the absolute path of a program",
    parse: (text) => (/^[\w.+-]+$|^\/[^\0]+$/.test(text) ? text : undefined),
  }),
  bodyLimit: variable<number>({
    name: "SANDPIPER_BODY_LIMIT",
    meaning: "Largest accepted request body, archives apart",
    defaultText: "32M",
    defaultValue: () => 32 * mebibyte,
    must: `${sizeMust}, from 1K to 1G`,
    parse: (text) => size(text, 1024, gibibyte),
  }),
  logLevel: variable<(typeof logLevels)[number]>({
    name: "SANDPIPER_LOG_LEVEL",
    meaning: "Least severe messages to log, as JSON lines on standard error",
    defaultText: "info",
    defaultValue: () => "info",
    must: `one of ${logLevels.join(", ")}`,
    parse: (text) => logLevels.find((level) => level === text),
  }),
  memoryBytes: variable<number>({
    name: "SANDPIPER_MEMORY",
    meaning: "Memory of a sandbox",
    defaultText: "2G",
    defaultValue: () => 2 * gibibyte,
    must: `${sizeMust}, from 32M to 16T`,
    parse: (text) => size(text, 32 * mebibyte, 16_384 * gibibyte),
  }),
  pids: variable<number>({
    name: "SANDPIPER_PIDS",
    meaning: "Processes and threads of a sandbox",
    defaultText: "1024",
    defaultValue: () => 1024,
    must: "a whole number from 16 to 4194304",
    parse: (text) => wholeNumber(text, 16, 4_194_304),
  }),
  cpus: variable<number>({
    name: "SANDPIPER_CPUS",
    meaning: "CPUs of a sandbox; fractions are fine",
    defaultText: "2",
    defaultValue: () => 2,
    must: "a number from 0.01 to 1024",
    parse: (text) => (/^\d+(\.\d+)?$/.test(text) && Number(text) >= 0.01 && Number(text) <= 1024 ? Number(text) : undefined),
  }),
  diskBytes: variable<number>({
    name: "SANDPIPER_DISK",
    meaning: "Disk space of a sandbox: the files that it makes or changes",
    defaultText: "10G",
    defaultValue: () => 10 * gibibyte,
    must: `${sizeMust}, from 1M to 16T`,
    parse: (text) => size(text, mebibyte, 16_384 * gibibyte),
  }),
  corsOrigins: variable<string[]>({
    name: "SANDPIPER_CORS_ORIGINS",
    meaning: "Origins beside localhost that browsers may call from, separated by commas",
    defaultText: "none",
    defaultValue: () => [],
    must: "a list of origins such as https://app.example.com, separated by commas",
    parse: origins,
  }),
} as const;

/** Variables that the command line and the scripts read for themselves. */
export const otherVariables: readonly { name: `SANDPIPER_${string}`; meaning: string; defaultText: string }[] = [
  {
    name: "SANDPIPER_URL",
    meaning: "Server that `sandpiper run` works with, together with SANDPIPER_API_KEY",
    defaultText: "one of its own",
  },
  { name: "SANDPIPER_DEBUG", meaning: "1 shows the stack of an error that ends a command", defaultText: "off" },
  {
    name: "SANDPIPER_SKIP_SYSTEM_PACKAGES",
    meaning: "1 keeps the set-up from installing packages of the distribution",
    defaultText: "off",
  },
];

function variable<T>(definition: Variable<T>): Variable<T> {
  return definition;
}

function wholeNumber(text: string, min: number, max: number): number | undefined {
  if (!/^\d{1,15}$/.test(text)) return undefined;
  const value = Number(text);
  return value >= min && value <= max ? value : undefined;
}

function size(text: string, min: number, max: number): number | undefined {
  const match = /^(\d{1,15})([KMGT]?)(?:i?B)?$/i.exec(text);
  if (!match) return undefined;
  const value = Number(match[1]) * 1024 ** ["", "K", "M", "G", "T"].indexOf(match[2]!.toUpperCase());
  return value >= min && value <= max ? value : undefined;
}

function isIpv6(text: string): boolean {
  return text.includes(":") && URL.canParse(`http://[${text}]/`);
}

function parseUrl(text: string): URL | undefined {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password) return undefined;
  return /[?#\s]/.test(text) ? undefined : url;
}

function publicUrl(text: string): string | undefined {
  return parseUrl(text)?.href.replace(/\/+$/, "");
}

function origins(text: string): string[] | undefined {
  const parts = text.split(",").map((part) => part.trim());
  const urls = parts.map((part) => parseUrl(part));
  return urls.every((url) => url?.pathname === "/") ? urls.map((url) => url!.origin) : undefined;
}
