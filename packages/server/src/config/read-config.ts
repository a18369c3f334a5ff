import { resolve } from "node:path";
import { findClosestName } from "@sandpiper/core/closest-name";
import { PlatformError } from "@sandpiper/core/errors";
import { toBlobPlace } from "./blob-address.ts";
import type { Config, WebhookFormat } from "./config.ts";
import { chooseDatabaseSource } from "./database-source.ts";
import { otherVariables } from "./other-variables.ts";
import type { Environment, Variable } from "./variable.ts";
import { variables } from "./variables.ts";
import { chooseVaultKeySource } from "./vault-key-source.ts";

/**
 * Reads the configuration from the environment; an empty value counts as not set. Throws
 * ConfigInvalid for the first invalid value, without showing secrets.
 */
export function readConfig(env: Environment): Config {
  const value = <T>(variable: Variable<T>): T => readVariable(variable, env);
  return {
    host: value(variables.host),
    port: value(variables.port),
    dataDir: resolve(value(variables.dataDir)),
    vaultKey: chooseVaultKeySource({
      file: toAbsolute(value(variables.vaultKeyFile)),
      key: value(variables.vaultKey),
      command: value(variables.vaultKeyCommand),
    }),
    database: chooseDatabaseSource({
      url: value(variables.databaseUrl),
      file: toAbsolute(value(variables.databaseUrlFile)),
    }),
    node: { url: value(variables.nodeUrl), lostAfterMs: value(variables.nodeLostAfterMs) },
    blobs: toBlobPlace(value(variables.blobs), {
      endpoint: value(variables.blobsEndpoint),
      region: value(variables.blobsRegion),
      credentialsFile: toAbsolute(value(variables.blobsCredentials)),
    }),
    apiKey: value(variables.apiKey),
    publicUrl: value(variables.publicUrl),
    driver: value(variables.driver),
    specsFile: toAbsolute(value(variables.specsFile)),
    registryAuth: toAbsolute(value(variables.registryAuth)),
    registries: value(variables.registries),
    dockerHost: value(variables.dockerHost),
    kubernetes: {
      kubeconfig: toAbsolute(value(variables.kubeconfig)),
      namespace: value(variables.kubernetesNamespace),
      installation: value(variables.kubernetesInstallation),
      kind: value(variables.kubernetesKind),
      runtimeClass: value(variables.kubernetesRuntimeClass),
      storageClass: value(variables.kubernetesStorageClass),
      pullSecrets: value(variables.kubernetesPullSecrets),
      warmPods: value(variables.kubernetesWarmPods),
      userNamespaces: value(variables.kubernetesUserNamespaces),
    },
    runtime: value(variables.runtime),
    bodyLimit: value(variables.bodyLimit),
    logLevel: value(variables.logLevel),
    limits: {
      memoryBytes: value(variables.memoryBytes),
      pids: value(variables.pids),
      cpus: value(variables.cpus),
      diskBytes: value(variables.diskBytes),
    },
    sandboxQuotas: {
      files: value(variables.files),
      snapshots: value(variables.maxSnapshots),
      sandboxes: value(variables.maxKeptSandboxes),
      userDiskBytes: value(variables.userDisk),
      images: value(variables.maxImages),
    },
    maxImageBytes: value(variables.maxImageBytes),
    storageQuotas: {
      conversationBytes: value(variables.conversationStorage),
      userBytes: value(variables.userStorage),
    },
    idlePauseMs: value(variables.idlePauseMs),
    hibernateAfterMs: value(variables.hibernateAfterMs),
    deleteAfterMs: value(variables.deleteAfterMs),
    maxSandboxes: value(variables.maxSandboxes),
    maxRuns: value(variables.maxRuns),
    dailyBudget: value(variables.dailyBudget),
    maxRequests: value(variables.maxRequests),
    trustedProxies: value(variables.trustedProxies),
    outboundPrivate: value(variables.outboundPrivate),
    packageMirrors: value(variables.packageMirrors),
    skillsDir: toAbsolute(value(variables.skillsDir)),
    webhook: webhook(
      value(variables.webhookUrl),
      value(variables.webhookSecret),
      value(variables.webhookFormat),
    ),
    corsOrigins: value(variables.corsOrigins),
  };
}

function webhook(
  url: string | undefined,
  secret: string | undefined,
  format: WebhookFormat,
): Config["webhook"] {
  return url === undefined ? undefined : { url, secret: secret ?? null, format };
}

function toAbsolute(path: string | undefined): string | undefined {
  return path === undefined ? undefined : resolve(path);
}

/** A warning for each unknown SANDPIPER_* variable, with the closest known name. */
export function listUnknownVariables(env: Environment): string[] {
  const known = [...Object.values(variables), ...otherVariables].map(({ name }) => name as string);
  return Object.keys(env)
    .filter((name) => name.startsWith("SANDPIPER_") && !known.includes(name))
    .sort()
    .map((name) => {
      const meant = findClosestName(name, known);
      return `The variable ${name} is unknown and has no effect${meant === undefined ? "." : `; did you mean ${meant}?`}`;
    });
}

function readVariable<T>(variable: Variable<T>, env: Environment): T {
  const text = env[variable.name]?.trim();
  if (!text) return variable.defaultValue(env);
  const value = variable.parse(text);
  if (value === undefined) {
    const shown = variable.secret
      ? ""
      : `, not ${JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)}`;
    throw new PlatformError("ConfigInvalid", `${variable.name} must be ${variable.must}${shown}.`);
  }
  return value;
}
