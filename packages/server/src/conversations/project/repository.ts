import { PlatformError } from "@sandpiper/core/errors";
import type { ProviderType } from "@sandpiper/wire";
import type { ProviderToken } from "../../users/api.ts";
import { providerSecretNames, publicHost } from "../../users/provider-hosts.ts";

/** A repository that a conversation works on. */
export interface Repository {
  /** `owner/name`, with more groups on GitLab. */
  fullName: string;
  /** Name of its folder. */
  folder: string;
  provider: ProviderType;
  /** `github.com`, with `:port` where it has one. */
  host: string;
  /** Address without credentials: https, or http where the operator allows such a host. */
  url: string;
  /** How git asks for access: the user name, and the environment variable with the placeholder of the token. Null without a token. */
  login: { user: string; variable: string } | null;
}

/** How git asks a service: `user` is the name that goes with a token, `nested` says that groups hold groups. */
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

/** Most parts of a name on GitLab, groups included. */
const maxParts = 20;

/**
 * Checks the name of a repository and finds where it is: at the named provider, else at the only one that the user has a token for, else at GitHub.
 * Throws InvalidParameter.
 */
export function resolveRepository(
  text: string,
  provider: ProviderType | null,
  tokens: ReadonlyMap<ProviderType, Pick<ProviderToken, "host" | "token">>,
  field = "selected_repository",
): Repository {
  const only = tokens.size === 1 ? [...tokens.keys()][0] : undefined;
  const chosen = provider ?? (only && services[only] ? only : "github");
  const service = services[chosen];
  if (!service) throw invalid(`Repositories of ${chosen} cannot be cloned by this server.`);
  const parts = checkRepositoryName(text, chosen, field);
  const token = tokens.get(chosen);
  const address = token?.host ?? publicHost(chosen) ?? "";
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

/** The parts of a repository's name. Throws InvalidParameter that says what a name looks like in this field of the request. */
export function checkRepositoryName(
  text: string,
  provider: ProviderType | null,
  field = "selected_repository",
): string[] {
  const parts = text.replace(/\.git$/, "").split("/");
  const nested = provider !== null && services[provider]?.nested === true;
  const count = nested ? parts.length >= 2 && parts.length <= maxParts : parts.length === 2;
  // Names become arguments of git and parts of an address and a path.
  const plain = parts.every(
    (part) => /^[A-Za-z0-9_.~][A-Za-z0-9_.~-]{0,254}$/.test(part) && !/^\.+$/.test(part),
  );
  if (count && plain) return parts;
  const shape = nested ? '"group/name", with as many groups as there are' : '"owner/name"';
  throw invalid(`${field} must be a name such as ${shape}, of letters, digits and . _ - ~.`);
}

/** Throws InvalidParameter for a text that is no name of a branch or tag. */
export function checkBranch(name: string): string {
  const wrong = /[\s\x00-\x20\x7f~^:?*[\\;&|$`'"<>(){}!]|\.\.|@\{|\/\/|\.lock(?:\/|$)|^[-/.]|\/\.|[/.]$/;
  if (name !== "" && name.length <= 255 && name !== "@" && !wrong.test(name)) return name;
  throw invalid("selected_branch must be the name of a branch or tag, such as main or feature/one.");
}

/** Bitbucket's app passwords come as `user:password`; everything else is a token alone. */
function loginName({ user }: Service, token: string): string {
  const named = /^([^:\s]{1,100}):/.exec(token)?.[1];
  return named && /^[A-Za-z0-9_.@+-]+$/.test(named) ? named : user;
}

function invalid(message: string): PlatformError {
  return new PlatformError("InvalidParameter", message);
}
