import { maskText } from "@sandpiper/wire";

/** Names of fields whose value is a secret, wherever they stand in what a client gave. */
const secretField =
  /^(?:aws_(?:access_key_id|secret_access_key|session_token)|acp_session_id|auth|authorization)$|(?:^|_)(?:api_?key|key|token|secret|password)$/i;

/** Names of fields whose members are all secrets: headers and environments. */
const secretMembers = new Set(["headers", "extra_headers", "env", "environment"]);

/** What of the way in which an MCP server knows its caller is no secret. */
const openInAuth = new Set(["strategy", "username", "header_name"]);

/** Where a value stands: among the members of a map of secrets (`sources`), inside of one of them, inside of `auth`, or where every text is a secret. */
type SecretScope = "open" | "secret" | "sources" | "source" | "auth";

/** A copy of what a client gave in which each secret is masked. Empty ones, and nulls, stay. */
export function maskSecrets(value: unknown, name = "", place: SecretScope = "open"): unknown {
  if (typeof value === "string") return value !== "" && isSecret(name, place) ? maskText : value;
  if (Array.isArray(value)) return value.map((one) => maskSecrets(one, name, place));
  if (typeof value !== "object" || value === null) return value;
  const inside = innerScope(name, place);
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, maskSecrets(one, key, inside)]));
}

/** The values that `masked` masks. */
export function collectSecrets(value: unknown, name = "", place: SecretScope = "open"): string[] {
  if (typeof value === "string") return value !== "" && isSecret(name, place) ? [value] : [];
  if (Array.isArray(value)) return value.flatMap((one) => collectSecrets(one, name, place));
  if (typeof value !== "object" || value === null) return [];
  const inside = innerScope(name, place);
  return Object.entries(value).flatMap(([key, one]) => collectSecrets(one, key, inside));
}

function isSecret(name: string, place: SecretScope): boolean {
  if (place === "auth") return !openInAuth.has(name);
  return (
    place === "secret" ||
    place === "sources" ||
    (place === "source" && name === "value") ||
    secretField.test(name)
  );
}

function innerScope(name: string, place: SecretScope): SecretScope {
  if (place === "secret" || place === "auth" || secretMembers.has(name)) return "secret";
  if (name === "auth") return "auth";
  if (place === "sources") return "source";
  return name === "secrets" ? "sources" : "open";
}

/** A secret that a client got masked and sends back is none. */
export function unmask(text: string | null | undefined): string | undefined {
  return text && !/^\*+$/.test(text) ? text : undefined;
}
