import { PlatformError } from "@sandpiper/core/errors";
import type { ProviderType } from "@sandpiper/wire";

/** Of each provider: where its public service has repositories, and then its other hosts. */
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

/** Names under which a token is known: to holders of a sandbox's key, and as the variable of its placeholder. */
export function providerSecretNames(provider: ProviderType): { name: string; variable: string } {
  return { name: `${provider}_token`, variable: `${provider.toUpperCase()}_TOKEN` };
}

/** Where the public service of a provider has repositories; undefined for providers that have none. */
export function getPublicHost(provider: ProviderType): string | undefined {
  return publicHosts[provider][0];
}

/** Hosts to which the egress proxy may send a provider's token. `host` is the user's own, null for the public service. */
export function listProviderHosts(provider: ProviderType, host: string | null): string[] {
  if (host === null) return publicHosts[provider];
  const name = host.replace(/^http:\/\//, "").replace(/:\d+$/, "");
  return [name, ...(provider === "github" && !name.startsWith("[") ? [`api.${name}`] : [])];
}

/** A host as users write it in its stored form: lower case, without `https://` and path. Null for an empty one. Throws InvalidParameter. */
export function parseProviderHost(text: string | null | undefined): string | null {
  const [, scheme = "", name = ""] =
    /^(?:https:\/\/)?(http:\/\/)?([^/]*)/.exec((text ?? "").trim().toLowerCase()) ?? [];
  const host = scheme + name;
  if (host === "") return null;
  if (host.length > 260 || !hostPattern.test(host))
    throw new PlatformError(
      "InvalidParameter",
      "The host of a git provider is a name such as git.example.com, with a port where it needs one.",
    );
  return host;
}
