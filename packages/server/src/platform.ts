import { join } from "node:path";
import { hiddenSecret } from "@sandpiper/agent/masking/output-mask";
import { SkillLibrary } from "@sandpiper/agent/skills/library/library";
import { chooseTools } from "@sandpiper/agent/tools/choose";
import { PlatformError } from "@sandpiper/core/errors";
import { createLogger } from "@sandpiper/core/log/log";
import { asFetch } from "@sandpiper/core/outbound/as-fetch";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import { findUpstreamProxy } from "@sandpiper/core/outbound/upstream-proxy";
import { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import { SecretMask } from "@sandpiper/core/secrets/mask";
import { SecretStream } from "@sandpiper/core/secrets/secret-stream";
import { maxTimeout } from "@sandpiper/models/call-options";
import { maxAnswerBytes } from "@sandpiper/models/guarded-fetch";
import type { OpenModel } from "@sandpiper/models/model";
import { createOpenModel } from "@sandpiper/models/open";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxSpec } from "@sandpiper/sandbox/driver";
import { EgressProxy } from "@sandpiper/sandbox/network/proxy/egress-proxy";
import { getDiskSpace } from "@sandpiper/sandbox/service/disk-space";
import { SandboxService } from "@sandpiper/sandbox/service/service";
import { BashService } from "@sandpiper/sandbox/shell/commands/service";
import { loadSpecs } from "@sandpiper/sandbox/specs/load-specs";
import { toMirrorConfig } from "@sandpiper/sandbox/specs/package-sources/mirrors";
import { Registries } from "@sandpiper/sandbox/specs/registries";
import { checkRegistryAuth } from "@sandpiper/sandbox/specs/registry-auth";
import { createImageSpec } from "@sandpiper/sandbox/specs/specs";
import type { SettingsView } from "@sandpiper/wire";
import type { DestinationStream } from "pino";
import { CallbackSender } from "./callbacks/sender.ts";
import { CallbackService } from "./callbacks/service.ts";
import type { Config } from "./config/config.ts";
import { createDataFolder } from "./config/data-folder.ts";
import { platformVersion } from "./config/version.ts";
import { registerSecrets } from "./conversations/agent/output-masks.ts";
import type { AdaptTools } from "./conversations/agent/toolset.ts";
import type { Conversations } from "./conversations/api.ts";
import { createConversations } from "./conversations/wiring.ts";
import { GitHostingService } from "./git/hosting.ts";
import { buildApp } from "./http/app.ts";
import { listen } from "./http/server/connections/listen.ts";
import type { HttpServices } from "./http/server/services.ts";
import { getPublicUrl } from "./http/server/urls.ts";
import { openKeptFiles } from "./kept-files.ts";
import { checkAddress } from "./nodes/check-address.ts";
import { ClusterOwnership } from "./nodes/cluster-ownership.ts";
import { NodePresence } from "./nodes/presence.ts";
import { createOwnerDuties } from "./owner-duties.ts";
import { Recordings } from "./recording/export.ts";
import { createDriver, findPlace } from "./sandbox-driver.ts";
import { openSharedSlots } from "./shared-slots.ts";
import { openStore } from "./store/open-store.ts";
import { sqliteStoreExists } from "./store/sqlite/folder.ts";
import type { Store } from "./store/store.ts";
import { openVaultOf } from "./store/vault-key/open-vault.ts";
import { StoredAcceptances } from "./users/acceptances.ts";
import type { ApiKeys, Secrets, Settings } from "./users/api.ts";
import { StoredApiKeys } from "./users/api-keys.ts";
import { StoredCredentialSources } from "./users/credential-sources.ts";
import { DailyBudget } from "./users/daily-budget.ts";
import { defaultUser } from "./users/default-user.ts";
import { EncryptedValues } from "./users/encrypted-values.ts";
import { KeyCache } from "./users/key-cache.ts";
import { LentSecrets } from "./users/lent-secrets.ts";
import { StoredLoginLinks } from "./users/login-links.ts";
import { StoredLogins } from "./users/logins.ts";
import { ProviderAccessTokens } from "./users/provider-access.ts";
import { SandboxGrants } from "./users/sandbox-grants.ts";
import { StoredSecrets } from "./users/secrets.ts";
import { StoredSettings } from "./users/settings/settings.ts";

/** A running platform. */
export interface Platform {
  /** URL of the listener, without a trailing slash. */
  url: string;
  /** The first API key, if it was just created; its text is not stored. */
  newApiKey: string | undefined;
  apiKeys: ApiKeys;
  store: Store;
  scheduler: EventLoopScheduler;
  sandboxes: Sandboxes;
  settings: Settings;
  secrets: Secrets;
  conversations: Conversations;
  /** The services of the HTTP routes. */
  services: HttpServices;
  app: ReturnType<typeof buildApp>;
  mask: SecretMask;
  egress: EgressProxy;
  /** Refuses new requests and gives current steps some seconds to end; sandboxes keep running. */
  close(): Promise<void>;
}

/** Environment, log and replaced parts of a platform; replays and tests use them. */
export interface PlatformOptions {
  /** Default: `process.env`. */
  env?: NodeJS.ProcessEnv | undefined;
  /** Destination of the log; default: standard error. */
  logs?: DestinationStream | undefined;
  openModel?: OpenModel;
  adaptTools?: AdaptTools;
  chooseTools?: typeof chooseTools;
  sandboxes?: Sandboxes;
  /** The way of the server's own requests; default: to all public and allowed addresses. */
  outbound?: ReturnType<typeof createOutbound>;
  /** How long callbacks collect events, ms. */
  batchDelayMs?: number;
}

/** Interval of the checks for idle and large sandboxes. */
const reapIntervalMs = 5_000;

/** Time-out of model calls to URLs of users, longer than that of the model layer. */
const modelCallMs = maxTimeout * 1000 + 60_000;

/**
 * How long steps may continue when the server closes; interrupted runs resume at the next start.
 */
const stepGraceMs = 3_000;

/**
 * Composes all services and listens. Throws ConfigInvalid or SandboxFailed with a message on what
 * to change, and leaves nothing open then.
 */
export async function startPlatform(config: Config, options: PlatformOptions = {}): Promise<Platform> {
  const { env = process.env } = options;
  const opened: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const end of opened.splice(0).reverse()) await end();
  };
  try {
    const mask = new SecretMask();
    if (config.apiKey) mask.registerSecret(config.apiKey);
    for (const [name, value] of Object.entries(env))
      if (value && /_(API_KEY|TOKEN|SECRET|SECRET_ACCESS_KEY|TOKEN_BEDROCK)$/.test(name))
        mask.registerSecret(value);
    const logger = createLogger(config.logLevel, mask, options.logs);
    await createDataFolder(config.dataDir);
    const vault = await openVaultOf(config.vaultKey, {
      dataDir: config.dataDir,
      create: !sqliteStoreExists(config.dataDir),
    });
    const scheduler = new EventLoopScheduler();
    const onSecret = (text: string) => mask.registerSecret(text);
    const store = await openStore(config, { vault, scheduler, onSecret });
    opened.push(() => store.close());
    const place = store.nodes ? await findPlace(config) : null;
    // Another server cannot own the sandboxes of a replaced service.
    const nodes = options.sandboxes ? undefined : store.nodes;
    const describeNode = () => ({
      url: config.node.url ?? getPublicUrl({ ...config, publicUrl: undefined }, app.server),
      place,
      version: platformVersion,
    });
    const ownership =
      nodes &&
      new ClusterOwnership({
        ...{ nodes, describe: describeNode, logger },
        presence: place === null ? undefined : new NodePresence(join(config.dataDir, "nodes")),
        lostAfterMs: config.node.lostAfterMs,
      });

    const sharedSlots = ownership && openSharedSlots(config, { store, ownership, logger, opened });

    const keyCache = new KeyCache(store.apiKeys);
    const apiKeys = new StoredApiKeys(store.apiKeys, keyCache);
    const sources = new StoredCredentialSources({ keys: store.apiKeys, logins: store.logins }, keyCache);
    if (config.apiKey) await apiKeys.adopt(defaultUser, "environment", config.apiKey);
    const settings = new StoredSettings(store.settings, {
      checks: {
        image: (reference) => void createImageSpec(reference, specs[0]!, registries),
        spec: (id) => {
          if (!specs.some((spec) => spec.id === id)) throw new PlatformError("SettingSpecUnknown");
        },
      },
      providerHosts: (userId) => secrets.providerHosts(userId),
      onSecret: (value, userId) => mask.registerKey(value, userId),
    });
    const secrets = new StoredSecrets({
      users: store.userSecrets,
      conversations: store.conversationSecrets,
      mask,
    });

    const mirrors = toMirrorConfig(config.packageMirrors);
    const specs = loadSpecs({ ...config, mirrors }, env);
    if (config.registryAuth) checkRegistryAuth(config.registryAuth);
    for (const { fromEnv } of specs.flatMap(({ network }) => network.credentials))
      if (env[fromEnv]) mask.registerSecret(env[fromEnv]);
    const acceptances = new StoredAcceptances({
      store: store.behaviours,
      publicUrl: () => getPublicUrl(config, app.server),
    });
    const lentSecrets = new LentSecrets();
    const egress = await EgressProxy.open({
      ...{ dir: join(config.dataDir, "network"), logger, env },
      authoritySecret: store.nodes && vault.derive("authority of the egress proxy"),
      ...{ files: mirrors.files, redirects: mirrors.redirects },
      secrets: {
        forSandbox: async (userId, sandboxId) =>
          lentSecrets.addTo(await secrets.forSandbox(userId, sandboxId), { userId, sandboxId }),
        withheld: (userId, sandboxId) => acceptances.withheld(userId, sandboxId),
      },
    });
    opened.push(() => egress.close());
    const outbound =
      options.outbound ??
      createOutbound({ allowPrivate: config.outboundPrivate, proxy: findUpstreamProxy(env) });
    opened.push(() => outbound.close());
    const registries = new Registries({ outbound, allowed: config.registries, specs });
    const driver = options.sandboxes
      ? undefined
      : await createDriver(config, { registries, logger, scheduler, cluster: store.nodes?.installation });
    const kept = driver && (await openKeptFiles(config, { driver, store, logger, opened }));
    const sandboxes =
      options.sandboxes ??
      new SandboxService({
        driver: driver!,
        kept,
        store,
        shared: ownership,
        sharedSlots: sharedSlots?.sandboxes,
        specs,
        imageSpec: (reference) => createImageSpec(reference, specs[0]!, registries),
        defaultSpec: async (userId) => chooseSpec(await settings.view(userId), specs, registries),
        egress,
        idle: {
          pauseAfterMs: config.idlePauseMs,
          hibernateAfterMs: config.hibernateAfterMs,
          deleteAfterMs: config.deleteAfterMs,
        },
        maxPerUser: config.maxSandboxes,
        quotas: config.sandboxQuotas,
        space: () => getDiskSpace(config.dataDir),
        reapIntervalMs,
        logger,
      });
    await sandboxes.open();
    opened.push(() => sandboxes.close());
    const bash = new BashService({
      dir: join(config.dataDir, "bash"),
      sandboxes,
      mask: async ({ userId, id }) => {
        await registerSecrets({ secrets, settings }, userId, id);
        return () => new SecretStream(mask.matcher(userId), hiddenSecret);
      },
      logger,
    });
    await bash.open(async (id) => (await store.sandboxes.get(id)) !== undefined);
    opened.push(() => bash.close());

    const open = createOpenModel({
      env,
      guardedFetch: asFetch(outbound, { timeoutMs: modelCallMs, maxBytes: maxAnswerBytes }),
      onRetry: (notice) => logger.warn(notice, "a model call is retried"),
    });
    const openModel: OpenModel = (wanted) => {
      const headers = Object.values(wanted.options?.headers ?? {});
      const { secretAccessKey = "", sessionToken = "" } = wanted.aws ?? {};
      for (const value of [wanted.apiKey ?? "", secretAccessKey, sessionToken, ...headers])
        mask.registerSecret(value, "models of users");
      return (options.openModel ?? open)(wanted);
    };
    const skills = new SkillLibrary({
      folder: config.skillsDir,
      outbound,
      registrations: async (userId) => (await settings.agent(userId)).marketplaces,
      logger,
    });
    await skills.open();
    const callbacks = new CallbackService({
      store,
      sender: new CallbackSender({
        outbound,
        server: config.webhook,
        conversationInfo: (id) =>
          store.conversations.get(id).then((row) => row && conversations.reads.info(row)),
        trace: async (id) => (await store.conversations.get(id))?.config.trace,
        registerSecret: (value) => mask.registerSecret(value, "callbacks of users"),
      }),
      logger,
      places: ownership && {
        findSandbox: async (id) => (await store.conversations.get(id))?.sandboxId,
        owns: (id) => ownership.ownerOf(id) !== undefined,
      },
      ...(options.batchDelayMs !== undefined && { batchDelayMs: options.batchDelayMs }),
    });
    opened.push(() => callbacks.close());
    const conversations: Conversations = createConversations({
      scheduler,
      store,
      ownership,
      callbacks,
      globalSkills: (userId) => skills.getLoaded(userId),
      sandboxes,
      outbound,
      settings,
      secrets,
      lentSecrets,
      acceptances,
      toolsFor: options.chooseTools ?? chooseTools,
      adaptTools: options.adaptTools,
      mask,
      openModel,
      limits: {
        maxRuns: config.maxRuns,
        slots: sharedSlots?.runs,
        dailyBudget: new DailyBudget(store.spending, config.dailyBudget),
      },
      publicUrl: () => getPublicUrl(config, app.server),
      registerSecret: (value, userId) => mask.registerSecret(value, userId),
      logger,
    });
    opened.push(() => conversations.close(stepGraceMs));

    const recordings = new Recordings({
      store,
      settings,
      secrets,
      mask,
      conversations,
      globalSkills: (userId) => skills.getLoaded(userId),
      version: platformVersion,
    });
    const services: HttpServices = {
      config,
      secrets,
      providerAccess: new ProviderAccessTokens(vault.derive("provider access"), sources),
      settings,
      encryptedValues: new EncryptedValues(vault),
      apiKeys,
      logins: new StoredLogins(store.logins, keyCache),
      loginLinks: new StoredLoginLinks(store.logins, apiKeys),
      sources,
      grants: new SandboxGrants({ sandboxes, sources }),
      acceptances,
      conversations,
      recordings,
      callbacks,
      skills,
      sandboxes,
      bash,
      egress,
      outbound,
      openModel,
      git: new GitHostingService({ secrets, outbound }),
      events: store.events,
      scheduler,
      longReads: new KeyedMutex(),
      forwarding: ownership && {
        ownership,
        passKey: vault.derive("passes of forwarded requests"),
        conversations: store.conversations,
        startTasks: store.startTasks,
        findShared: (...start) => conversations.starts.findShared(...start),
      },
      logger,
    };
    const app = buildApp(services);
    // Requests and runs end concurrently.
    opened.push(() => Promise.all([app.close(), conversations.close(stepGraceMs), bash.close()]));
    await listen(app, config);
    await callbacks.open();
    if (ownership) {
      opened.push(() => ownership.close());
      const rules = { graceMs: stepGraceMs, blobs: store.blobs };
      await ownership.open(createOwnerDuties({ ownership, sandboxes, conversations, bash, logger, rules }));
      opened.push(() => ownership.drain());
      await checkAddress(describeNode(), { nodes: nodes!, logger });
    } else await conversations.adopt("all");
    // Last, because a key that a failing start creates would never be shown.
    const hasKeys = (await apiKeys.list()).length > 0;
    const newApiKey = hasKeys ? undefined : await apiKeys.create(defaultUser, "first");
    if (newApiKey) mask.registerSecret(newApiKey);
    return {
      url: getPublicUrl({ ...config, publicUrl: undefined }, app.server),
      newApiKey,
      ...{ apiKeys, store, scheduler, sandboxes, settings, secrets, conversations },
      ...{ services, app, mask, egress, close },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * The spec of a user's settings; undefined: the default. Throws SandboxSpecUnusable for a bad
 * image.
 */
function chooseSpec(
  { sandbox_base_container_image, default_sandbox_spec_id }: SettingsView,
  specs: SandboxSpec[],
  registries: Registries,
): SandboxSpec | undefined {
  if (sandbox_base_container_image)
    return createImageSpec(sandbox_base_container_image, specs[0]!, registries);
  return specs.find(({ id }) => id === default_sandbox_spec_id);
}
