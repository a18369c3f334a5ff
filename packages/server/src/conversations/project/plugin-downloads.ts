import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import {
  type FetchPluginRequest,
  type FetchPluginResponse,
  type ProviderType,
  providerTypes,
  type SecretSource,
} from "@sandpiper/wire";
import type { Secrets, Settings } from "../../users/api.ts";
import type { LentSecrets } from "../../users/lent-secrets.ts";
import { getPublicHost, providerSecretNames } from "../../users/provider-hosts.ts";
import { cloneRepository, getGitIdentity } from "./clone.ts";
import { describePlugin } from "./plugin-description.ts";
import { type Plugin, parsePlugin, pluginFolder } from "./plugins.ts";
import { toTokenLogin } from "./repository.ts";

/** Maximum size of a plugin's repository, bytes. */
const maxBytes = 256 * 2 ** 20;

export interface PluginDownloadsDeps {
  sandboxes: Pick<Sandboxes, "running">;
  settings: Pick<Settings, "agent">;
  secrets: Pick<Secrets, "providers">;
  /** The values of a client's secrets. */
  resolveSecrets(
    place: Place,
    sources: Readonly<Record<string, SecretSource>>,
  ): Promise<Record<string, string>>;
  lentSecrets: Pick<LentSecrets, "lend">;
  /** Registers a secret of a user, so that logs do not show it. */
  registerSecret: ((value: string, userId: string) => void) | undefined;
}

interface Place {
  userId: string;
  sandboxId: string;
}

/** Fetches plugins to describe them to clients. No conversation uses a plugin because of it. */
export class PluginDownloads {
  readonly #deps: PluginDownloadsDeps;
  readonly #closing = new AbortController();
  /** Fetches into one sandbox run one after another: they share folders. */
  readonly #turns = new KeyedMutex();

  constructor(deps: PluginDownloadsDeps) {
    this.#deps = deps;
  }

  /**
   * Fetches a plugin into a sandbox, which it wakes, and describes it. Throws InvalidParameter,
   * PluginFetchFailed, PluginFetchTimeout, what resolving a secret and `exec` throw, and an error
   * at shutdown.
   */
  async fetch(place: Place, request: FetchPluginRequest): Promise<FetchPluginResponse> {
    const { source, ref = null, repo_path = null, secrets = {}, timeout = 60 } = request;
    const deadline = Date.now() + timeout * 1000;
    const plugin = parsePlugin({ source, ref, repo_path }, await this.#deps.secrets.providers(place.userId));
    const login = await this.#findLogin(place, plugin, secrets);
    const described = await this.#turns.run(place.sandboxId, async () => {
      try {
        return await this.#clone(place, plugin, login, deadline);
      } catch (error) {
        if (!(error instanceof PlatformError) || error.code !== "RepositoryFailed") throw error;
        if (Date.now() < deadline) throw new PlatformError("PluginUnfetched", { reason: error.message });
        const { fullName: name } = plugin.repository;
        throw new PlatformError("PluginFetchTooLong", { name, seconds: timeout });
      }
    });
    return { ...described, source, repo_path };
  }

  close(): void {
    this.#closing.abort(new Error("The server is ending."));
  }

  async #clone(
    place: Place,
    plugin: Plugin,
    login: { user: string; password: string } | undefined,
    deadline: number,
  ): Promise<Omit<FetchPluginResponse, "source" | "repo_path">> {
    const { sandboxes, settings, lentSecrets } = this.#deps;
    const sandbox = await sandboxes.running(place.sandboxId);
    const identity = getGitIdentity(await settings.agent(place.userId));
    const target = pluginFolder(sandbox.spec.user.home, plugin);
    // A fetch whose time has passed while it waited ends at once.
    const seconds = Math.max(1, Math.ceil((deadline - Date.now()) / 1000));
    const { hostname } = new URL(plugin.repository.url);
    const lent = login && lentSecrets.lend(place, hostname, login.password);
    const repository =
      login && lent
        ? { ...plugin.repository, login: { user: login.user, variable: lent.variable } }
        : plugin.repository;
    try {
      const options = { branch: plugin.ref, newBranch: null, full: false, identity, seconds, maxBytes };
      await cloneRepository(sandbox, { repository, target, ...options }, this.#closing.signal);
    } finally {
      lent?.takeBack();
    }
    return describePlugin(sandbox, plugin, target);
  }

  /** The login with the secret of the request that is for the plugin's repository, if any. */
  async #findLogin(
    place: Place,
    plugin: Plugin,
    sources: Readonly<Record<string, SecretSource>>,
  ): Promise<{ user: string; password: string } | undefined> {
    const { registerSecret } = this.#deps;
    const found = chooseSecret(plugin, sources);
    if (!found) return undefined;
    const values = await this.#deps.resolveSecrets(place, { [found.name]: sources[found.name]! });
    const value = values[found.name]?.trim();
    if (!value) return undefined;
    const login = toTokenLogin(found.provider, value);
    for (const one of [value, login.password]) registerSecret?.(one, place.userId);
    return login;
  }
}

/** The secret with the name of the provider's token, else the only one. */
function chooseSecret(
  { repository }: Plugin,
  sources: Readonly<Record<string, unknown>>,
): { name: string; provider: ProviderType } | undefined {
  const names = Object.keys(sources);
  const named = providerTypes.flatMap((provider) => {
    const { name, variable } = providerSecretNames(provider);
    return names.filter((one) => one === name || one === variable).map((one) => ({ name: one, provider }));
  });
  const atHost = providerTypes.find((provider) => getPublicHost(provider) === repository.host);
  const chosen = named.find(({ provider }) => provider === (atHost ?? repository.provider));
  if (chosen || names.length !== 1) return chosen;
  // A host of a company is known by the name of its token only.
  if (named[0]) return atHost ? undefined : named[0];
  return { name: names[0]!, provider: atHost ?? repository.provider };
}
