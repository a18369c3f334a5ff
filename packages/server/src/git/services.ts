import { PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { ProviderType } from "@sandpiper/wire";
import { getPublicHost } from "../users/provider-hosts.ts";
import { bitbucket } from "./bitbucket/bitbucket.ts";
import { Connection } from "./connection.ts";
import { forgejo } from "./forgejo/forgejo.ts";
import { github } from "./github/github.ts";
import { gitlab } from "./gitlab/gitlab.ts";
import type { GitProvider, GitService } from "./provider.ts";

const services: Partial<Record<ProviderType, GitService>> = { github, gitlab, bitbucket, forgejo };

export const supportedProviders = Object.keys(services) as readonly ProviderType[];

export function isSupported(provider: ProviderType): boolean {
  return services[provider] !== undefined;
}

/** Throws GitUnsupported. */
function getService(provider: ProviderType): GitService {
  const service = services[provider];
  if (service) return service;
  throw new PlatformError("ProviderUnsupported", { provider, supported: supportedProviders.join(", ") });
}

/**
 * Creates the client of a provider. `host` has its stored form; null: the public service. Throws
 * GitUnsupported.
 */
export function createGitProvider(
  outbound: Outbound,
  provider: ProviderType,
  { token, host }: { token: string; host: string | null },
): GitProvider {
  const service = getService(provider);
  const ownHost = getPublicHost(provider);
  const origin = toOrigin(host ?? ownHost ?? "");
  return service.connect(
    new Connection({
      outbound,
      api: service.api(origin, origin === `https://${ownHost}`),
      host: new URL(origin).host,
      label: service.label,
      headers: service.headers(token),
    }),
  );
}

/**
 * The origin of a stored host. `Outbound` allows `http://` only for hosts of the operator's
 * network.
 */
function toOrigin(host: string): string {
  const url = URL.parse(host.startsWith("http://") ? host : `https://${host}`);
  if (url) return url.origin;
  throw new PlatformError("StoredProviderHostInvalid");
}
