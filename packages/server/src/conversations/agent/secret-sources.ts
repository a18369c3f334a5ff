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

/** Longest value, bytes, and time to get one, ms. */
const maxBytes = 65_536;
const timeoutMs = 10_000;

/** Where this server itself gives out secrets (app-server.md section 4, agent-server.md section 9). */
const ownPath = /(?:^|\/)api\/(?:v1\/sandboxes\/[^/]+\/)?settings\/secrets\/([^/?]+)$/;

/**
 * The values of secrets that a client gives or says where to get (agent-server.md section 3, secrets). Addresses are asked now (and again later, see `looked-up-secrets.ts`); one of this
 * server, or a path of it, means the sandbox's secret of that name. Masked values are left out, for they are what the server has already, and so is
 * what names the user's secret of the same name: it applies anyway, and a copy would not change with it.
 * Throws InvalidParameter, and OutboundFailed or OutboundRefused for an address that does not give one.
 */
export async function resolveSecrets(
  deps: SecretSourceDeps,
  { userId, sandboxId }: { userId: string; sandboxId: string },
  sources: Readonly<Record<string, SecretSource>>,
): Promise<Record<string, string>> {
  const found = await Promise.all(
    Object.entries(sources).map(
      async ([name, source]) =>
        [name, await resolveSource(deps, { userId, sandboxId, name }, source)] as const,
    ),
  );
  return Object.fromEntries(found.filter((one): one is readonly [string, string] => one[1] !== undefined));
}

/** What clients say of the secrets that they give, and where the fetched ones came from. */
export function describeSecrets(
  { publicUrl }: Pick<SecretSourceDeps, "publicUrl">,
  given: Readonly<Record<string, SecretSource>>,
): Required<Pick<ConversationSecretsRow, "descriptions" | "sources">> {
  const descriptions: Record<string, string> = {};
  const sources: Record<string, LookupSecretSource> = {};
  for (const [name, source] of Object.entries(given)) {
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
    if (wanted === name && secrets.value(userId, name) !== undefined) return undefined;
    const found = secrets.forSandbox(userId, sandboxId).find((secret) => secret.name === wanted);
    if (!found)
      throw new PlatformError("InvalidParameter", `The secret ${name} names a secret that is not there.`);
    return found.value;
  }
  if (!URL.canParse(source.url))
    throw new PlatformError("InvalidParameter", `The address of the secret ${name} is none.`);
  return fetchSecret({ outbound }, name, {
    url: source.url,
    ...(source.headers && { headers: source.headers }),
  });
}

/** The value that an address gives. Throws OutboundFailed or OutboundRefused, in whose sentences no value stands. */
export async function fetchSecret(
  { outbound }: Pick<SecretSourceDeps, "outbound">,
  name: string,
  { url, headers = {} }: Pick<LookupSecretSource, "url" | "headers">,
): Promise<string> {
  const secret = Object.keys(headers).length > 0;
  const answer = await outbound.fetch(url, { headers: { ...headers }, timeoutMs, maxBytes, secret });
  if (answer.ok) return answer.text();
  await answer.body?.cancel();
  throw new PlatformError("OutboundFailed", `The address of the secret ${name} answered ${answer.status}.`);
}

/** The name of the secret that an address of this server means. */
function ownSecretName(address: string, base: string): string | undefined {
  const url = URL.canParse(address, base) ? new URL(address, base) : undefined;
  return url?.origin === new URL(base).origin ? ownPath.exec(url.pathname)?.[1] : undefined;
}

/** A part of an address as text; one that is no text names nothing. */
function decodeSegment(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}
