import { PlatformError } from "@sandpiper/core/errors";
import type { ProviderType } from "@sandpiper/wire";
import type { ProviderToken } from "../../users/api.ts";
import { getPublicHost, providerSecretNames } from "../../users/provider-hosts.ts";

export interface ProjectRepository {
  /** `owner/name`; GitLab allows more groups. */
  fullName: string;
  folder: string;
  provider: ProviderType;
  /** Host name, with `:port` unless it is the default. */
  host: string;
  /** URL without credentials: https, or http for hosts that the operator allows. */
  url: string;
  /** User name and the variable with the token's placeholder; null without a token. */
  login: { user: string; variable: string } | null;
}

/** `user` is the login name for a token, `nested` allows groups in groups. */
interface Service {
  user: string;
  nested?: boolean;
}

const services: Partial<Record<ProviderType, Service>> = {
  github: { user: "x-access-token" },
  gitlab: { user: "oauth2", nested: true },
  bitbucket: { user: "x-token-auth" },
  forgejo: { user: "token" },
};

/** Maximum parts of a GitLab name, groups included. */
const maxParts = 20;

/**
 * Validates a repository's name and resolves its URL: at the given provider, else at the only
 * provider with a stored token, else at GitHub. Throws InvalidParameter.
 */
export function resolveRepository(
  text: string,
  provider: ProviderType | null,
  tokens: ReadonlyMap<ProviderType, Pick<ProviderToken, "host" | "token">>,
  field = "selected_repository",
): ProjectRepository {
  const only = tokens.size === 1 ? [...tokens.keys()][0] : undefined;
  const chosen = provider ?? (only && services[only] ? only : "github");
  const service = services[chosen];
  if (!service) throw new PlatformError("ProviderNotCloneable", { provider: chosen });
  const parts = checkRepositoryName(text, chosen, field);
  const token = tokens.get(chosen);
  const address = token?.host ?? getPublicHost(chosen) ?? "";
  const [, scheme = "https://", host = ""] = /^(https?:\/\/)?(.*)$/.exec(address) ?? [];
  const fullName = parts.join("/");
  return {
    fullName,
    folder: parts.at(-1)!,
    provider: chosen,
    host,
    url: `${scheme}${host}/${fullName}.git`,
    login: token?.token
      ? { user: loginName(service, token.token), variable: providerSecretNames(chosen).variable }
      : null,
  };
}

/** Splits a repository's name; `field` names the request field. Throws InvalidParameter. */
export function checkRepositoryName(
  text: string,
  provider: ProviderType | null,
  field = "selected_repository",
): string[] {
  const parts = text.replace(/\.git$/, "").split("/");
  const nested = provider !== null && services[provider]?.nested === true;
  const count = nested ? parts.length >= 2 && parts.length <= maxParts : parts.length === 2;
  // Names become git arguments and parts of a URL and a path.
  const plain = parts.every(
    (part) => /^[A-Za-z0-9_.~][A-Za-z0-9_.~-]{0,254}$/.test(part) && !/^\.+$/.test(part),
  );
  if (count && plain) return parts;
  const shape = nested ? '"group/name", with any number of groups' : '"owner/name"';
  throw new PlatformError("RepositoryNameInvalid", { field, shape });
}

/** Returns a valid name of a branch or tag. Throws InvalidParameter. */
export function checkBranch(name: string): string {
  const wrong = /[\s\x00-\x20\x7f~^:?*[\\;&|$`'"<>(){}!]|\.\.|@\{|\/\/|\.lock(?:\/|$)|^[-/.]|\/\.|[/.]$/;
  if (name !== "" && name.length <= 255 && name !== "@" && !wrong.test(name)) return name;
  throw new PlatformError("BranchNameInvalid");
}

/** How git logs in at a provider with a token that is not stored. */
export function toTokenLogin(provider: ProviderType, token: string): { user: string; password: string } {
  const password = provider.startsWith("bitbucket") ? token.replace(/^[^:]*:/, "") : token;
  return { user: loginName(services[provider] ?? { user: "token" }, token), password };
}

/** Bitbucket app passwords have the form `user:password`. */
function loginName({ user }: Service, token: string): string {
  const named = /^([^:\s]{1,100}):/.exec(token)?.[1];
  return named && /^[A-Za-z0-9_.@+-]+$/.test(named) ? named : user;
}
