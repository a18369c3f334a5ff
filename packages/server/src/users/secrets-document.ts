import type { SandboxSecret, SecretInfo } from "@sandpiper/sandbox/network/sandbox-secret";
import { type ProviderType, providerTypes } from "@sandpiper/wire";
import type { ProviderToken } from "./api.ts";
import { listProviderHosts, providerSecretNames } from "./provider-hosts.ts";

/** The stored secrets of a user. */
export interface SecretsDocument {
  custom: Record<string, Omit<SecretInfo, "name"> & { value: string }>;
  providers: Partial<Record<ProviderType, ProviderToken>>;
}

export const noSecrets: SecretsDocument = Object.freeze({ custom: {}, providers: {} });

/** Data derived from a document. */
export interface DerivedSecrets {
  list: readonly SecretInfo[];
  providers: ReadonlyMap<ProviderType, ProviderToken>;
  providerHosts: Readonly<Record<string, string | null>>;
  /** The secrets of every sandbox of the user. */
  forSandboxes: readonly SandboxSecret[];
}

export function deriveSecrets({ custom, providers }: SecretsDocument): DerivedSecrets {
  const named = Object.entries(custom)
    .map(
      ([name, { value, description, hosts, headers = null, plain }]): SandboxSecret => ({
        name,
        variable: name,
        description,
        hosts,
        headers: headers?.map((header) => header.toLowerCase()) ?? null,
        ...(plain && { plain }),
        value,
      }),
    )
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const tokens = providerTypes.flatMap((type): [ProviderType, ProviderToken][] => {
    const token = providers[type];
    return token ? [[type, token]] : [];
  });
  const ofProviders = tokens.map(([type, { token, host }]): SandboxSecret => {
    const hosts = listProviderHosts(type, host);
    return {
      ...providerSecretNames(type),
      description: `Token for ${hosts[0] ?? type}`,
      hosts,
      value: token,
      ...(type.startsWith("bitbucket") && { outgoingValue: token.replace(/^[^:]*:/, "") }),
    };
  });
  return {
    list: named.map(({ name, description, hosts, headers = null, plain = false }) => ({
      name,
      description,
      hosts,
      headers,
      plain,
    })),
    providers: new Map(tokens),
    providerHosts: Object.freeze(Object.fromEntries(tokens.map(([type, { host }]) => [type, host]))),
    forSandboxes: overlaySecrets(ofProviders, named),
  };
}

/** Adds a conversation's secrets; each takes the hosts and headers of the one that it replaces. */
export function addConversationSecrets(
  secrets: readonly SandboxSecret[],
  values: Readonly<Record<string, string>>,
  descriptions: Readonly<Record<string, string>> = {},
): readonly SandboxSecret[] {
  const own = Object.entries(values).map(([name, value]): SandboxSecret => {
    const other = secrets.find((one) => one.name === name || one.variable === name);
    const described = Object.hasOwn(descriptions, name) ? descriptions[name] : undefined;
    return {
      name,
      variable: name,
      description: described ?? other?.description ?? null,
      hosts: other?.hosts ?? null,
      headers: other?.headers ?? null,
      value,
    };
  });
  return overlaySecrets(secrets, own);
}

/** The secrets that every scope names, by either name; all of them without a scope. */
export function limitSecrets(
  secrets: readonly SandboxSecret[],
  scopes: readonly (readonly string[])[],
): readonly SandboxSecret[] {
  if (scopes.length === 0) return secrets;
  const sets = scopes.map((scope) => new Set(scope));
  return secrets.filter(({ name, variable }) => sets.every((set) => set.has(name) || set.has(variable)));
}

/** Both lists; secrets `above` replace those with the same name or variable. */
function overlaySecrets(
  below: readonly SandboxSecret[],
  above: readonly SandboxSecret[],
): readonly SandboxSecret[] {
  const taken = new Set(above.flatMap(({ name, variable }) => [name, variable]));
  return [...below.filter(({ name, variable }) => !taken.has(name) && !taken.has(variable)), ...above];
}
