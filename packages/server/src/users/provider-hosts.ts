import { PlatformError } from "@sandpiper/core/errors";
import type { ProviderType } from "@sandpiper/wire";

/** Hosts of each provider's public service; the first one has the repositories. */
const publicHosts: Record<ProviderType, string[]> = {
  github: ["github.com", "api.github.com", "uploads.github.com"],
  gitlab: ["gitlab.com"],
  bitbucket: ["bitbucket.org", "api.bitbucket.org"],
  bitbucket_data_center: [],
  forgejo: ["codeberg.org"],
  azure_devops: ["dev.azure.com"],
  enterprise_sso: [],
};

const hostPattern =
  /^(?:http:\/\/)?(?:(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?$/;

/** The secret name of a provider token, and the environment variable of its placeholder. */
export function providerSecretNames(provider: ProviderType): { name: string; variable: string } {
  return { name: `${provider}_token`, variable: `${provider.toUpperCase()}_TOKEN` };
}

/** The repository host of a provider's public service; undefined when it has no such service. */
export function getPublicHost(provider: ProviderType): string | undefined {
  return publicHosts[provider][0];
}

/** Hosts that may receive a provider's token. `host` null means the public service. */
export function listProviderHosts(provider: ProviderType, host: string | null): string[] {
  if (host === null) return publicHosts[provider];
  const name = host.replace(/^http:\/\//, "").replace(/:\d+$/, "");
  return [name, ...(provider === "github" && !name.startsWith("[") ? [`api.${name}`] : [])];
}

/**
 * The stored form of a host: lower case, without `https://` and path; null when it is empty.
 * Throws InvalidParameter.
 */
export function parseProviderHost(text: string | null | undefined): string | null {
  const [, scheme = "", name = ""] =
    /^(?:https:\/\/)?(http:\/\/)?([^/]*)/.exec((text ?? "").trim().toLowerCase()) ?? [];
  const host = scheme + name;
  if (host === "") return null;
  if (host.length > 260 || !hostPattern.test(host)) throw new PlatformError("ProviderHostInvalid");
  return host;
}
