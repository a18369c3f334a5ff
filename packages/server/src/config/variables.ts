import { join } from "node:path";
import type { DockerHost } from "@sandpiper/sandbox/drivers/docker/engine";
import {
  mirrorKinds,
  type PackageMirrors,
  parseMirrors,
} from "@sandpiper/sandbox/specs/package-sources/mirrors";
import type { WebhookFormat } from "./config.ts";
import { kubernetesVariables } from "./kubernetes-variables.ts";
import { storageVariables } from "./storage-variables.ts";
import {
  isIpv6,
  parseBytes,
  parseDockerHost,
  parseDuration,
  parseFilePath,
  parseOrigins,
  parsePublicUrl,
  parseRangeList,
  parseRegistries,
  parseWebUrl,
} from "./value-parsers.ts";
import { defineQuota, defineVariable, gibibyte, mebibyte, sizeMust, wholeNumber } from "./variable.ts";

const logLevels = ["fatal", "error", "warn", "info", "debug", "silent"] as const;
const dayMs = 86_400_000;
const drivers = ["oci", "docker", "kubernetes"] as const;
const webhookFormats = ["signed", "agent-server"] as const;

/** Every variable of the server, by the name of what it sets. */
export const variables = {
  host: defineVariable<string>({
    name: "SANDPIPER_HOST",
    description: "Address to listen on; 0.0.0.0 opens the server to the network",
    defaultText: "127.0.0.1",
    defaultValue: () => "127.0.0.1",
    must: "a host name or an IP address, without a port",
    parse: (text) =>
      /^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/.test(text) || isIpv6(text) ? text : undefined,
  }),
  port: defineVariable<number>({
    name: "SANDPIPER_PORT",
    description: "Port to listen on; 0 selects a free port",
    defaultText: "3000",
    defaultValue: () => 3000,
    ...wholeNumber(0, 65_535),
  }),
  dataDir: defineVariable<string>({
    name: "SANDPIPER_DATA",
    description: "Folder for the database, keys and sandboxes; created if it is missing",
    defaultText: "~/.local/share/sandpiper",
    defaultValue: (env) => join(env.XDG_DATA_HOME || join(env.HOME || "/root", ".local/share"), "sandpiper"),
    // A relative path would mean another folder, and another server, in each folder.
    must: "the absolute path of a folder, other than /",
    parse: (text) => (text.includes("\0") || !/^\/+[^/]/.test(text) ? undefined : text),
  }),
  ...storageVariables,
  apiKey: defineVariable<string | undefined>({
    name: "SANDPIPER_API_KEY",
    description:
      "Key that clients send; without it, the first start creates a key, prints it once and stores it",
    defaultText: "created at the first start",
    defaultValue: () => undefined,
    must: "16 to 256 printable ASCII characters without spaces",
    parse: (text) => (/^[\x21-\x7e]{16,256}$/.test(text) ? text : undefined),
    secret: true,
  }),
  publicUrl: defineVariable<string | undefined>({
    name: "SANDPIPER_PUBLIC_URL",
    description: "Address under which clients reach the server, if it is behind a proxy",
    defaultText: "built from host and port",
    defaultValue: () => undefined,
    must: "an http or https address without user, query or fragment",
    parse: parsePublicUrl,
  }),
  driver: defineVariable<(typeof drivers)[number]>({
    name: "SANDPIPER_DRIVER",
    description:
      "Engine of the sandboxes: oci starts them itself, docker asks a Docker or Podman engine, kubernetes makes pods of a cluster",
    defaultText: "oci",
    defaultValue: () => "oci",
    must: `one of ${drivers.join(", ")}`,
    parse: (text) => drivers.find((driver) => driver === text),
  }),
  specsFile: defineVariable<string | undefined>({
    name: "SANDPIPER_SPECS",
    description: "File with the sandbox specs",
    defaultText: "specs.json in the data folder, if it exists",
    defaultValue: () => undefined,
    must: "the path of a file",
    parse: parseFilePath,
  }),
  registryAuth: defineVariable<string | undefined>({
    name: "SANDPIPER_REGISTRY_AUTH",
    description: "File with the credentials for image registries, in the format of Docker's config.json",
    defaultText: "what `skopeo login` or `docker login` stored",
    defaultValue: () => undefined,
    must: "the path of a file",
    parse: parseFilePath,
  }),
  registries: defineVariable<string[] | undefined>({
    name: "SANDPIPER_REGISTRIES",
    description:
      "Image registries that users may choose images from, separated by commas; a named one may have a private address",
    defaultText: "all public ones; with the docker and kubernetes drivers docker.io",
    defaultValue: () => undefined,
    must: "a list of registries such as docker.io, *.example.com or registry.example.com:5000, separated by commas",
    parse: parseRegistries,
  }),
  dockerHost: defineVariable<DockerHost | undefined>({
    name: "SANDPIPER_DOCKER_HOST",
    description: "Address of the docker driver's engine",
    defaultText: "DOCKER_HOST, else /var/run/docker.sock",
    defaultValue: () => undefined,
    must: "the absolute path of a socket, or an address such as unix:///run/docker.sock or tcp://127.0.0.1:2375",
    parse: parseDockerHost,
  }),
  ...kubernetesVariables,
  runtime: defineVariable<string | undefined>({
    name: "SANDPIPER_RUNTIME",
    description: "OCI runtime that starts the sandboxes of the oci driver, by name or absolute path",
    defaultText: "crun, else runc",
    defaultValue: () => undefined,
    must: "the name or the absolute path of a program",
    parse: (text) => (/^[\w.+-]+$|^\/[^\0]+$/.test(text) ? text : undefined),
  }),
  bodyLimit: defineVariable<number>({
    name: "SANDPIPER_BODY_LIMIT",
    description: "Largest accepted request body with messages; files and archives have no limit, others 1M",
    defaultText: "16M",
    defaultValue: () => 16 * mebibyte,
    must: `${sizeMust}, from 1K to 1G`,
    parse: (text) => parseBytes(text, 1024, gibibyte),
  }),
  logLevel: defineVariable<(typeof logLevels)[number]>({
    name: "SANDPIPER_LOG_LEVEL",
    description: "Least severe messages to log, as JSON lines on standard error",
    defaultText: "info",
    defaultValue: () => "info",
    must: `one of ${logLevels.join(", ")}`,
    parse: (text) => logLevels.find((level) => level === text),
  }),
  memoryBytes: defineVariable<number>({
    name: "SANDPIPER_MEMORY",
    description: "Memory of a sandbox",
    defaultText: "2G",
    defaultValue: () => 2 * gibibyte,
    must: `${sizeMust}, from 32M to 16T`,
    parse: (text) => parseBytes(text, 32 * mebibyte, 16_384 * gibibyte),
  }),
  pids: defineVariable<number>({
    name: "SANDPIPER_PIDS",
    description: "Processes and threads of a sandbox",
    defaultText: "1024",
    defaultValue: () => 1024,
    ...wholeNumber(16, 4_194_304),
  }),
  cpus: defineVariable<number>({
    name: "SANDPIPER_CPUS",
    description: "CPUs of a sandbox; fractions are allowed",
    defaultText: "2",
    defaultValue: () => 2,
    must: "a number from 0.01 to 1024",
    parse: (text) =>
      /^\d+(\.\d+)?$/.test(text) && Number(text) >= 0.01 && Number(text) <= 1024 ? Number(text) : undefined,
  }),
  diskBytes: defineVariable<number>({
    name: "SANDPIPER_DISK",
    description: "Disk space of a sandbox: the files that it creates or changes",
    defaultText: "10G",
    defaultValue: () => 10 * gibibyte,
    must: `${sizeMust}, from 1M to 16T`,
    parse: (text) => parseBytes(text, mebibyte, 16_384 * gibibyte),
  }),
  files: defineVariable<number>({
    name: "SANDPIPER_FILES",
    description: "Files, folders and links of a sandbox, at most a quarter of the disk's; 0 is no limit",
    defaultText: "1000000",
    defaultValue: () => 1_000_000,
    ...wholeNumber(0, 1_000_000_000),
  }),
  conversationStorage: defineQuota(
    "SANDPIPER_CONVERSATION_STORAGE",
    "Events and model calls that a conversation stores; 0 is no limit",
    1,
  ),
  userStorage: defineQuota(
    "SANDPIPER_USER_STORAGE",
    "What the conversations of a user store together, without the files of sandboxes; 0 is no limit",
    20,
  ),
  userDisk: defineQuota(
    "SANDPIPER_USER_DISK",
    "Disk space of all sandboxes and snapshots of a user; 0 is no limit",
    0,
  ),
  maxImageBytes: defineQuota("SANDPIPER_MAX_IMAGE", "Unpacked size of a sandbox's image; 0 is no limit", 20),
  maxSnapshots: defineVariable<number>({
    name: "SANDPIPER_MAX_SNAPSHOTS",
    description: "Snapshots of a user; 0 is no limit",
    defaultText: "100",
    defaultValue: () => 100,
    ...wholeNumber(0, 1_000_000),
  }),
  maxImages: defineVariable<number>({
    name: "SANDPIPER_MAX_IMAGES",
    description: "Images that a user's sandboxes and snapshots keep, without those of specs; 0 is no limit",
    defaultText: "20",
    defaultValue: () => 20,
    ...wholeNumber(0, 1_000_000),
  }),
  maxKeptSandboxes: defineVariable<number>({
    name: "SANDPIPER_MAX_KEPT_SANDBOXES",
    description: "Sandboxes of a user in any state, paused ones included; 0 is no limit",
    defaultText: "2000",
    defaultValue: () => 2_000,
    ...wholeNumber(0, 1_000_000),
  }),
  idlePauseMs: defineVariable<number>({
    name: "SANDPIPER_IDLE_PAUSE",
    description: "Seconds without use after which a sandbox is paused; 0 never pauses",
    defaultText: "1200",
    defaultValue: () => 1_200_000,
    must: "a whole number from 0 to 31536000",
    parse: (text) => parseDuration(text, 31_536_000, 1_000),
  }),
  hibernateAfterMs: defineVariable<number>({
    name: "SANDPIPER_HIBERNATE_AFTER",
    description:
      "Seconds after the pause until the processes of a paused sandbox are ended and only its files are kept; 0 never does",
    defaultText: "600",
    defaultValue: () => 600_000,
    must: "a whole number from 0 to 31536000",
    parse: (text) => parseDuration(text, 31_536_000, 1_000),
  }),
  deleteAfterMs: defineVariable<number>({
    name: "SANDPIPER_DELETE_AFTER",
    description: "Days without use after which a sandbox is deleted; 0 never deletes",
    defaultText: "10",
    defaultValue: () => 10 * dayMs,
    must: "a whole number from 0 to 36500",
    parse: (text) => parseDuration(text, 36_500, dayMs),
  }),
  maxSandboxes: defineVariable<number>({
    name: "SANDPIPER_MAX_SANDBOXES",
    description:
      "Running sandboxes of a user; beyond that, the one that was idle longest is paused, or a new one waits; 0 is no limit",
    defaultText: "0",
    defaultValue: () => 0,
    ...wholeNumber(0, 1_000_000),
  }),
  outboundPrivate: defineVariable<string[]>({
    name: "SANDPIPER_OUTBOUND_PRIVATE",
    description:
      "Private address ranges that the server itself may send requests to for its users (git hosts, callbacks, MCP servers, models of named users), separated by commas",
    defaultText: "none",
    defaultValue: () => [],
    must: "a list of address ranges such as 10.1.0.0/16 or fd00::/8, separated by commas",
    parse: parseRangeList,
  }),
  packageMirrors: defineVariable<PackageMirrors>({
    name: "SANDPIPER_PACKAGE_MIRRORS",
    description:
      "Mirrors of package registries that sandboxes use, also at private addresses, separated by commas",
    defaultText: "none",
    defaultValue: () => ({}),
    must: `a list such as npm=https://mirror.example.com/npm,pip=https://mirror.example.com/simple, with ${mirrorKinds.join(", ")}, and no address of loopback, which is the sandbox's own`,
    parse: parseMirrors,
  }),
  maxRuns: defineVariable<number>({
    name: "SANDPIPER_MAX_RUNS",
    description: "Conversations of a user that run at a time; others wait for their turn; 0 is no limit",
    defaultText: "100",
    defaultValue: () => 100,
    ...wholeNumber(0, 1_000_000),
  }),
  dailyBudget: defineVariable<number>({
    name: "SANDPIPER_DAILY_BUDGET",
    description: "Maximum cost of a user's model calls per day (UTC), USD; 0 is no limit",
    defaultText: "0",
    defaultValue: () => 0,
    must: "a number from 0 to 1000000",
    parse: (text) =>
      /^\d{1,7}(\.\d{1,6})?$/.test(text) && Number(text) <= 1_000_000 ? Number(text) : undefined,
  }),
  maxRequests: defineVariable<number>({
    name: "SANDPIPER_MAX_REQUESTS",
    description: "Requests per second of one key, or of one address without a key; 0 is no limit",
    defaultText: "1000",
    defaultValue: () => 1_000,
    ...wholeNumber(0, 1_000_000),
  }),
  trustedProxies: defineVariable<string[]>({
    name: "SANDPIPER_TRUSTED_PROXIES",
    description:
      "Address ranges of proxies before the server, whose X-Forwarded headers are trusted, separated by commas",
    defaultText: "none",
    defaultValue: () => [],
    must: "a list of address ranges such as 10.1.0.0/16 or 127.0.0.1/32, separated by commas",
    parse: parseRangeList,
  }),
  skillsDir: defineVariable<string | undefined>({
    name: "SANDPIPER_SKILLS",
    description: "Folder with skills for every user",
    defaultText: "none",
    defaultValue: () => undefined,
    must: "the path of a folder",
    parse: parseFilePath,
  }),
  webhookUrl: defineVariable<string | undefined>({
    name: "SANDPIPER_WEBHOOK_URL",
    description: "Address that receives the events of every conversation (docs/clients/event-delivery.md)",
    defaultText: "none",
    defaultValue: () => undefined,
    must: "an http or https address without a user or a password",
    parse: (text) => (/\s/.test(text) ? undefined : parseWebUrl(text)?.href),
    secret: true,
  }),
  webhookSecret: defineVariable<string | undefined>({
    name: "SANDPIPER_WEBHOOK_SECRET",
    description:
      "Key that signs requests to SANDPIPER_WEBHOOK_URL; with the format agent-server, the session key that is sent",
    defaultText: "no signature",
    defaultValue: () => undefined,
    must: "16 to 512 printable ASCII characters without spaces",
    parse: (text) => (/^[\x21-\x7e]{16,512}$/.test(text) ? text : undefined),
    secret: true,
  }),
  webhookFormat: defineVariable<WebhookFormat>({
    name: "SANDPIPER_WEBHOOK_FORMAT",
    description:
      "signed, or agent-server: SANDPIPER_WEBHOOK_URL is then the base of /conversations and /events/{id}",
    defaultText: "signed",
    defaultValue: () => "signed",
    must: "signed or agent-server",
    parse: (text) => webhookFormats.find((format) => format === text),
  }),
  corsOrigins: defineVariable<string[]>({
    name: "SANDPIPER_CORS_ORIGINS",
    description: "Origins besides localhost that browsers may call from, separated by commas",
    defaultText: "none",
    defaultValue: () => [],
    must: "a list of origins such as https://app.example.com, separated by commas",
    parse: parseOrigins,
  }),
} as const;
