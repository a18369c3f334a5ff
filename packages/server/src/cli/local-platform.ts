import { createServer } from "node:net";
import { PlatformError } from "@sandpiper/core/errors";
import type { Config } from "../config/config.ts";
import { listUnknownVariables, readConfig } from "../config/read-config.ts";
import type { Environment } from "../config/variables.ts";
import type { Platform, PlatformOptions } from "../platform.ts";
import { defaultUser } from "../users/default-user.ts";
import { Client } from "./client.ts";
import { CliError, exitCodes } from "./errors.ts";
import { inertLine } from "./inert.ts";

/** Reads the configuration. Throws CliError for invalid values; warns about unknown variables. */
export function loadConfig(env: Environment = process.env): Config {
  for (const warning of listUnknownVariables(env)) process.stderr.write(`sandpiper: ${inertLine(warning)}\n`);
  try {
    return readConfig(env);
  } catch (error) {
    throw new CliError((error as Error).message, { cause: error, exitCode: exitCodes.usage });
  }
}

/**
 * Starts the platform in this process. Throws CliError for problems of the machine or the
 * configuration.
 */
export async function openPlatform(config: Config, options: PlatformOptions = {}): Promise<Platform> {
  // Loaded lazily: commands without a server start faster.
  const { startPlatform } = await import("../platform.ts");
  try {
    return await startPlatform(config, options);
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

/**
 * Creates a client with a temporary key for a platform in this process; `release` removes the key.
 */
export async function localClient(
  platform: Platform,
): Promise<{ client: Client; key: string; release(): Promise<void> }> {
  const name = `command line, process ${process.pid}`;
  const key = await platform.apiKeys.create(defaultUser, name);
  const release = async () => {
    for (const { id } of platform.apiKeys.list().filter((row) => row.name === name))
      await platform.apiKeys.remove(id);
  };
  return { client: new Client(platform.url, key), key, release };
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
