import { createServer } from "node:net";
import { PlatformError } from "@sandpiper/core/errors";
import type { Config } from "../config/config.ts";
import { loadPlaceId } from "../nodes/place-id.ts";
import type { Platform, PlatformOptions } from "../platform.ts";
import { defaultUser } from "../users/default-user.ts";
import { temporaryKeyPrefix } from "../users/login-links.ts";
import { Client } from "./client.ts";
import { CliError, exitCodes } from "./errors.ts";
import { keepPublished } from "./server-file.ts";

/**
 * Starts the platform in this process. Throws CliError for problems of the machine or the
 * configuration.
 */
export async function openPlatform(config: Config, options: PlatformOptions = {}): Promise<Platform> {
  // Loaded lazily: commands without a server start faster.
  const { startPlatform } = await import("../platform.ts");
  try {
    const platform = await startPlatform(config, options);
    // The failure of one piece of work, such as a write to a full disk, does not end all others.
    process.on("unhandledRejection", (err) => platform.app.log.error({ err }, "a failure was not handled"));
    return platform;
  } catch (error) {
    const sentence = describeFolderFailure(error as NodeJS.ErrnoException, config);
    if (sentence) throw new CliError(sentence, { cause: error });
    if (error instanceof PlatformError) {
      throw new CliError(error.message, {
        cause: error,
        exitCode: error.code === "ConfigInvalid" ? exitCodes.usage : exitCodes.failed,
      });
    }
    throw error;
  }
}

/** How commands of this user reach a platform in this process. */
export interface LocalAccess {
  client: Client;
  key: string;
  /** Returns an address that logs a browser in once, within ten minutes. */
  createLoginUrl(): Promise<string>;
  /** Removes the key and the file. */
  release(): Promise<void>;
}

/**
 * Creates a temporary key for a platform in this process, and publishes both in the data folder for
 * other commands. `stays`: the platform serves until it is stopped.
 */
export async function openAccess(
  platform: Platform,
  { dataDir, stays }: { dataDir: string; stays: boolean },
): Promise<LocalAccess> {
  const { apiKeys, url } = platform;
  const place = (await loadPlaceId(dataDir)).slice(0, 8);
  const own = `${temporaryKeyPrefix}${process.pid}, place ${place}`;
  const removeKeys = async () => {
    for (const { id, name } of await apiKeys.list(defaultUser))
      if (name === own || isLeftOver(name, place)) await apiKeys.remove(id);
  };
  await removeKeys();
  const key = await apiKeys.create(defaultUser, own);
  const withdraw = keepPublished(dataDir, { url, key, stays });
  const release = async () => {
    withdraw();
    await removeKeys();
  };
  const createLoginUrl = async () => {
    const holder = await apiKeys.authenticate(key);
    return `${url}/login#link=${await platform.services.loginLinks.create(holder!)}`;
  };
  return { client: new Client(url, key), key, createLoginUrl, release };
}

/**
 * Whether a key belongs to an ended process of this place, or to an ended process of an older
 * version.
 */
function isLeftOver(name: string, place: string): boolean {
  const [, pid, its = place] = /^command line, process (\d+)(?:, place (\w+))?$/.exec(name) ?? [];
  if (pid === undefined || its !== place) return false;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

/** True when a server can listen there, else the error. */
export async function probePort(host: string, port: number): Promise<true | NodeJS.ErrnoException> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error) => resolve(error));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** The message for a data folder that cannot be used. */
function describeFolderFailure({ code }: NodeJS.ErrnoException, { dataDir }: Config): string | undefined {
  switch (code) {
    case "EACCES":
    case "EPERM":
      return `This user may not write to the data folder ${dataDir}: run as its owner or as root, or set SANDPIPER_DATA to another folder.`;
    case "EROFS":
    case "ENOTDIR":
    case "EEXIST":
    case "ENAMETOOLONG":
      return `${dataDir} cannot be the data folder (${code}): set SANDPIPER_DATA to a writable folder.`;
    case "ENOSPC":
      return `The disk of the data folder ${dataDir} is full.`;
    default:
      return undefined;
  }
}
