import { PlatformError } from "@sandpiper/core/errors";
import {
  isMasked,
  type McpAuth,
  type McpConfig,
  McpServer,
  type McpServers,
  maskText,
  type PostedMcpServer,
} from "@sandpiper/wire";

export const maxServerNameLength = 256;

/** Path of a secret in a server, for example `["auth", "value"]`. */
type Path = readonly string[];

/** Public fields of `auth`. All others are secret: OAuth states hold tokens under any name. */
const openAuth: ReadonlySet<string> = new Set(
  "strategy header_name username type client_auth_method scopes scope client_name client_metadata_url client_id token_type".split(
    " ",
  ),
);

/** Masks `env`, `headers` and `auth` (app-server.md section 5), or applies `show`. */
export function maskServers(
  servers: McpServers,
  show: (secret: string) => string = () => maskText,
): McpServers {
  return mapServers(servers, (server) => mapSecrets(server, (value) => show(value)));
}

/**
 * The servers to store after a V1 post, which replaces all. Masked values are restored from the
 * stored server of the same name, or dropped. Throws InvalidParameter without url, command or name.
 */
export function restoreServers(posted: Record<string, PostedMcpServer>, stored: McpServers): McpServers {
  const servers = Object.entries(posted).map(([name, server]) => {
    if (name === "" || name.length > maxServerNameLength)
      throw new PlatformError("McpServerNameLength", { max: maxServerNameLength });
    if (!server.url === !server.command) throw new PlatformError("McpServerTargetMissing", { name });
    return [name, restore(keepKnownFields(server), Object.hasOwn(stored, name) ? stored[name] : undefined)];
  });
  return Object.fromEntries(servers);
}

export function serverSecrets(servers: McpServers): string[] {
  const found: string[] = [];
  const collect = (value: string) => {
    found.push(value);
    return value;
  };
  mapServers(servers, (server) => mapSecrets(server, collect));
  return found;
}

/** The bearer key of a remote server; V0 knows no other kind. */
function getKey(auth: McpAuth | null | undefined): string | undefined {
  return isKeyed(auth) ? (auth.value ?? undefined) : undefined;
}

/** Whether the server gets a single key as a header or bearer token. */
export function isKeyed(
  auth: McpAuth | null | undefined,
): auth is Extract<McpAuth, { strategy: "api_key" | "bearer" }> {
  return auth?.strategy === "bearer" || auth?.strategy === "api_key";
}

/** The three lists of V0 (platform.md section 2.2), unmasked. */
export function toLists(servers: McpServers): McpConfig {
  const lists: McpConfig = { sse_servers: [], stdio_servers: [], shttp_servers: [] };
  for (const [name, { url, transport, command, args, env, auth }] of Object.entries(servers)) {
    if (command) lists.stdio_servers.push({ name, command, ...(args && { args }), ...(env && { env }) });
    else if (url) {
      const key = getKey(auth);
      lists[transport === "sse" ? "sse_servers" : "shttp_servers"].push({
        url,
        ...(key && { api_key: key }),
      });
    }
  }
  return lists;
}

/** Restores masked values from a stored server. */
export function restore(server: McpServer, stored: McpServer | undefined): McpServer {
  return mapSecrets(server, (value, path) => (isMasked(value) ? textAt(stored, path) : value));
}

export function mapServers(
  servers: McpServers,
  change: (server: McpServer, name: string) => McpServer,
): McpServers {
  return Object.fromEntries(Object.entries(servers).map(([name, server]) => [name, change(server, name)]));
}

/** Keeps known fields that are not null, also in variables and headers. */
function keepKnownFields({ env, headers, ...server }: PostedMcpServer): McpServer {
  const fields = { ...server, env: env && withoutNulls(env), headers: headers && withoutNulls(headers) };
  return Object.fromEntries(
    Object.entries(fields).filter(
      ([field, value]) => Object.hasOwn(McpServer.properties, field) && value != null,
    ),
  );
}

function withoutNulls<Value>(values: Record<string, Value | null>): Record<string, Value> {
  return Object.fromEntries(
    Object.entries(values).filter((entry): entry is [string, Value] => entry[1] !== null),
  );
}

/** Changes every secret of a server; undefined removes it. */
function mapSecrets(server: McpServer, change: (value: string, path: Path) => string | undefined): McpServer {
  const result: McpServer = { ...server };
  if (server.env) result.env = mapLeaves(server.env, ["env"], change) as typeof server.env;
  if (server.headers)
    result.headers = mapLeaves(server.headers, ["headers"], change) as typeof server.headers;
  if (server.auth) result.auth = mapLeaves(server.auth, ["auth"], change, openAuth) as McpAuth;
  return result;
}

function mapLeaves(
  value: unknown,
  path: Path,
  change: (value: string, path: Path) => string | undefined,
  open?: ReadonlySet<string>,
): unknown {
  if (typeof value === "string")
    return value === "" || open?.has(lastName(path)) ? value : change(value, path);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value)
    .map(([key, item]): [string, unknown] => [key, mapLeaves(item, [...path, key], change, open)])
    .filter(([, item]) => item !== undefined);
  return Array.isArray(value) ? entries.map(([, item]) => item) : Object.fromEntries(entries);
}

/** The last path step that is not a list index. */
function lastName(path: Path): string {
  return path.findLast((step) => !/^\d+$/.test(step)) ?? "";
}

function textAt(root: unknown, path: Path): string | undefined {
  let value = root;
  for (const step of path) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, step)) return undefined;
    value = (value as Record<string, unknown>)[step];
  }
  return typeof value === "string" ? value : undefined;
}
