import { isMasked, maskText } from "@sandpiper/wire";

/** Names of fields whose value is always a secret. */
const secretField =
  /^(?:aws_(?:access_key_id|secret_access_key|session_token)|acp_session_id|auth|authorization)$|(?:^|_)(?:api_?key|key|token|secret|password)$/i;

/** Names of fields whose members are all secrets: headers and environments. */
const secretMembers = new Set(["headers", "extra_headers", "env", "environment"]);

/** Fields of MCP `auth` that are not secret. */
const publicAuthFields = new Set(["strategy", "username", "header_name"]);

/** Position of a value: in a map of secrets (`sources`), in its entry, in `auth`, or in headers. */
type SecretScope = "open" | "secret" | "sources" | "source" | "auth";

/** A copy of a client's value with masked secrets; empty ones and nulls stay. */
export function maskSecrets(value: unknown, name = "", scope: SecretScope = "open"): unknown {
  if (typeof value === "string") return value !== "" && isSecret(name, scope) ? maskText : value;
  if (Array.isArray(value)) return value.map((item) => maskSecrets(item, name, scope));
  if (typeof value !== "object" || value === null) return value;
  const inside = innerScope(name, scope);
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, maskSecrets(item, key, inside)]),
  );
}

/** The secrets that `maskSecrets` would mask. */
export function collectSecrets(value: unknown, name = "", scope: SecretScope = "open"): string[] {
  if (typeof value === "string") return value !== "" && isSecret(name, scope) ? [value] : [];
  if (Array.isArray(value)) return value.flatMap((item) => collectSecrets(item, name, scope));
  if (typeof value !== "object" || value === null) return [];
  const inside = innerScope(name, scope);
  return Object.entries(value).flatMap(([key, item]) => collectSecrets(item, key, inside));
}

function isSecret(name: string, scope: SecretScope): boolean {
  if (scope === "auth") return !publicAuthFields.has(name);
  return (
    scope === "secret" ||
    scope === "sources" ||
    (scope === "source" && name === "value") ||
    secretField.test(name)
  );
}

function innerScope(name: string, scope: SecretScope): SecretScope {
  if (scope === "secret" || scope === "auth" || secretMembers.has(name)) return "secret";
  if (name === "auth") return "auth";
  if (scope === "sources") return "source";
  return name === "secrets" ? "sources" : "open";
}

/** Undefined for an empty secret and for a masked one that a client sends back. */
export function unmask(text: string | null | undefined): string | undefined {
  return text && !isMasked(text) ? text : undefined;
}
