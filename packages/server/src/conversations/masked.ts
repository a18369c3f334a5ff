/** What a secret reads like in answers (agent-server.md section 3.1). */
export const maskText = "**********";

/** Names of fields whose value is a secret, wherever they stand in what a client gave. */
const secretField =
  /^(?:aws_(?:access_key_id|secret_access_key|session_token)|acp_session_id|auth|authorization)$|(?:^|_)(?:api_?key|key|token|secret|password)$/i;

/** Names of fields whose members are all secrets: headers and environments. */
const secretMembers = new Set(["headers", "extra_headers", "env", "environment"]);

/** A copy of what a client gave in which each secret is masked. Empty ones, and nulls, stay. */
export function masked(value: unknown, name = "", inSecrets = false): unknown {
  if (typeof value === "string") return value !== "" && (inSecrets || secretField.test(name)) ? maskText : value;
  if (Array.isArray(value)) return value.map((one) => masked(one, name, inSecrets));
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).map(([key, one]) => [key, masked(one, key, inSecrets || secretMembers.has(name))]);
  return Object.fromEntries(members);
}

/** A secret that a client got masked and sends back is none. */
export function unmasked(text: string | null | undefined): string | undefined {
  return text && !/^\*+$/.test(text) ? text : undefined;
}
