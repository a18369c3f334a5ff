import { join } from "node:path";
import { coreTools } from "./agent/tools/index.ts";
import type { Config } from "./config/config.ts";
import { makeDataFolder } from "./config/data-folder.ts";
import { ConversationService } from "./conversations/service.ts";
import { PlatformError } from "./errors.ts";
import { buildApp } from "./http/app.ts";
import { publicUrl } from "./http/urls.ts";
import type { OpenModel } from "./models/model.ts";
import { makeOpenModel } from "./models/open.ts";
import type { Sandboxes } from "./sandboxes/api.ts";
import { OciDriver } from "./sandboxes/drivers/oci/oci-driver.ts";
import { SandboxService } from "./sandboxes/service.ts";
import { hostSpec } from "./sandboxes/specs.ts";
import { sqliteStoreExists } from "./store/sqlite/folder.ts";
import { openSqliteStore } from "./store/sqlite/open.ts";
import type { Store } from "./store/store.ts";
import { createLogger } from "./telemetry/log.ts";
import { SecretMask } from "./telemetry/mask.ts";
import { type ApiKeys, defaultUser } from "./users/api.ts";
import { StoredApiKeys } from "./users/api-keys.ts";
import { StoredSettings } from "./users/settings.ts";
import { openVault } from "./users/vault.ts";

/** A running platform. */
export interface Platform {
  /** Address of the listener, without a trailing slash. */
  url: string;
  /** The key that was made because there was none; its text exists nowhere else. */
  newApiKey: string | undefined;
  apiKeys: ApiKeys;
  store: Store;
  sandboxes: Sandboxes;
  conversations: ConversationService;
  /** Ends gracefully: no new requests, current steps get some seconds, sandboxes go on. */
  close(): Promise<void>;
}

/** How long a step may go on after the server was asked to end, ms; what is cut off is woken at the next start. */
const stepGraceMs = 3_000;

/**
 * Builds every service from the configuration, and listens.
 * Throws PlatformError ConfigInvalid or SandboxFailed with one sentence on what to change; nothing is left open then.
 */
export async function startPlatform(config: Config, env: NodeJS.ProcessEnv = process.env): Promise<Platform> {
  const opened: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const end of opened.splice(0).reverse()) await end();
  };
  try {
    const mask = new SecretMask();
    if (config.apiKey) mask.registerSecret(config.apiKey);
    for (const [name, value] of Object.entries(env))
      if (value && /_(API_KEY|TOKEN|SECRET)$/.test(name)) mask.registerSecret(value);
    const logger = createLogger(config.logLevel, mask);
    await makeDataFolder(config.dataDir);
    const vault = await openVault(join(config.dataDir, "vault.key"), { create: !sqliteStoreExists(config.dataDir) });
    const store = await openSqliteStore({ dir: config.dataDir, vault });
    opened.push(() => store.close());

    const apiKeys = new StoredApiKeys(store.apiKeys);
    if (config.apiKey) await apiKeys.adopt(defaultUser, "environment", config.apiKey);
    const settings = new StoredSettings(store.settings);

    const driver = new OciDriver({ dir: join(config.dataDir, "sandboxes"), runtime: config.runtime });
    const sandboxes = new SandboxService({ driver, store, specs: [hostSpec(config.limits)], logger });
    await sandboxes.open();
    opened.push(() => sandboxes.close());

    const open = makeOpenModel({ env, onRetry: (notice) => logger.warn(notice, "a model call is tried again") });
    const openModel: OpenModel = (wanted) => {
      if (wanted.apiKey) mask.registerSecret(wanted.apiKey);
      return open(wanted);
    };
    const conversations: ConversationService = new ConversationService({
      store,
      sandboxes,
      settings,
      tools: coreTools,
      openModel,
      publicUrl: () => publicUrl(config, app.server),
      logger,
    });
    opened.push(() => conversations.close(stepGraceMs));

    const app = buildApp({ config, settings, apiKeys, conversations, sandboxes, events: store.events, logger });
    opened.push(() => app.close());
    await listen(app, config);
    await conversations.open();
    // Last of all: a key that is made by a start that then fails would never be shown.
    const newApiKey = apiKeys.list().length === 0 ? await apiKeys.create(defaultUser, "first") : undefined;
    if (newApiKey) mask.registerSecret(newApiKey);
    return {
      url: publicUrl({ ...config, publicUrl: undefined }, app.server),
      newApiKey,
      apiKeys,
      store,
      sandboxes,
      conversations,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function listen(app: ReturnType<typeof buildApp>, { host, port }: Config): Promise<void> {
  try {
    await app.listen({ host, port });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const reason =
      code === "EADDRINUSE"
        ? `The port ${port} of ${host} is in use: end the other program, or choose another one with SANDPIPER_PORT.`
        : `The server cannot listen on ${host}:${port}: ${message}.`;
    throw new PlatformError("ConfigInvalid", reason, { cause: error });
  }
}
