import type { McpAuth, McpServer } from "@sandpiper/wire";

/** Request headers of a remote MCP server, names in lower case. */
export function credentialHeaders({
  headers,
  auth,
}: Pick<McpServer, "headers" | "auth">): Record<string, string> {
  const own = Object.entries({ ...headers, ...authHeaders(auth) });
  return Object.fromEntries(own.map(([name, value]) => [name.toLowerCase(), value]));
}

export function authHeaders(auth: McpAuth | null | undefined): Record<string, string> {
  switch (auth?.strategy) {
    case "bearer":
    case "api_key": {
      const name = auth.strategy === "api_key" ? auth.header_name : undefined;
      if (!auth.value) return {};
      return name ? { [name]: auth.value } : { authorization: `Bearer ${auth.value}` };
    }
    case "basic":
      return {
        authorization: `Basic ${Buffer.from(`${auth.username}:${auth.password ?? ""}`).toString("base64")}`,
      };
    case "header":
      return auth.headers ?? {};
    case "oauth2": {
      const token = (auth.state?.tokens as { access_token?: unknown } | undefined)?.access_token;
      return typeof token === "string" ? { authorization: `Bearer ${token}` } : {};
    }
    default:
      return {};
  }
}
