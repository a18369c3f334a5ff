import { PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { SecretSource } from "@sandpiper/wire";
import type { ConversationSecretsRow, LookupSecretSource } from "../../store/conversation-parts.ts";
import type { Secrets } from "../../users/api.ts";
import { unmask } from "./mask-secrets.ts";

export interface SecretSourceDeps {
  secrets: Pick<Secrets, "value" | "forSandbox">;
  outbound: Pick<Outbound, "fetch">;
  publicUrl: () => string;
}

/** Maximum size of a fetched value, bytes, and its time-out, ms. */
const maxBytes = 65_536;
const timeoutMs = 10_000;

/** Path of this server's own secrets (app-server.md section 4, agent-server.md section 9). */
const ownPath = /(?:^|\/)api\/(?:v1\/sandboxes\/[^/]+\/)?settings\/secrets\/([^/?]+)$/;

/**
 * Resolves the secrets of a client to values (agent-server.md section 3, secrets). URLs are fetched
 * now, and again later by `RefreshedSecrets`; URLs of this server refer to the sandbox's secret of
 * that name. Masked values are omitted, as the server has them, and so are references to the user's
 * secret of the same name, which applies anyway. Throws InvalidParameter, OutboundFailed,
 * OutboundRefused.
 */
export async function resolveSecrets(
  deps: SecretSourceDeps,
  { userId, sandboxId }: { userId: string; sandboxId: string },
  sources: Readonly<Record<string, SecretSource>>,
): Promise<Record<string, string>> {
  const values = await Promise.all(
    Object.entries(sources).map(
      async ([name, source]) =>
        [name, await resolveSource(deps, { userId, sandboxId, name }, source)] as const,
    ),
  );
  return Object.fromEntries(
    values.filter((entry): entry is readonly [string, string] => entry[1] !== undefined),
  );
}

/** The descriptions of a client's secrets, and the URLs of fetched ones. */
export function describeSecrets(
  { publicUrl }: Pick<SecretSourceDeps, "publicUrl">,
  clientSources: Readonly<Record<string, SecretSource>>,
): Required<Pick<ConversationSecretsRow, "descriptions" | "sources">> {
  const descriptions: Record<string, string> = {};
  const sources: Record<string, LookupSecretSource> = {};
  for (const [name, source] of Object.entries(clientSources)) {
    if (typeof source === "string") continue;
    const { description, url, headers } = source;
    if (description) descriptions[name] = description;
    if (url && ownSecretName(url, publicUrl()) === undefined)
      sources[name] = { url, ...(headers && { headers }), at: Date.now() };
  }
  return { descriptions, sources };
}

async function resolveSource(
  { secrets, outbound, publicUrl }: SecretSourceDeps,
  { userId, sandboxId, name }: { userId: string; sandboxId: string; name: string },
  source: SecretSource,
): Promise<string | undefined> {
  if (typeof source === "string") return unmask(source);
  if (!source.url) return unmask(source.value);
  const own = ownSecretName(source.url, publicUrl());
  if (own !== undefined) {
    const wanted = decodeSegment(own);
    if (wanted === name && (await secrets.value(userId, name)) !== undefined) return undefined;
    const all = await secrets.forSandbox(userId, sandboxId);
    const found = all.find((secret) => secret.name === wanted);
    if (!found) throw new PlatformError("SecretReferenceUnknown", { name });
    return found.value;
  }
  if (!URL.canParse(source.url)) throw new PlatformError("SecretUrlInvalid", { name });
  return fetchSecret({ outbound }, name, {
    url: source.url,
    ...(source.headers && { headers: source.headers }),
  });
}

/** Fetches a secret. Throws OutboundFailed or OutboundRefused, without the value in their texts. */
export async function fetchSecret(
  { outbound }: Pick<SecretSourceDeps, "outbound">,
  name: string,
  { url, headers = {} }: Pick<LookupSecretSource, "url" | "headers">,
): Promise<string> {
  const secret = Object.keys(headers).length > 0;
  const answer = await outbound.fetch(url, { headers: { ...headers }, timeoutMs, maxBytes, secret });
  if (answer.ok) return answer.text();
  await answer.body?.cancel();
  throw new PlatformError("SecretUrlFailed", { name, status: answer.status });
}

/** The encoded secret name in a URL of this server; undefined for other URLs. */
function ownSecretName(address: string, base: string): string | undefined {
  const url = URL.canParse(address, base) ? new URL(address, base) : undefined;
  return url?.origin === new URL(base).origin ? ownPath.exec(url.pathname)?.[1] : undefined;
}

/** A decoded URL segment; empty when it is invalid. */
function decodeSegment(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}
