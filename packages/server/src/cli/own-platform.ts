import type { Config } from "../config/config.ts";
import type { Client } from "./client.ts";
import { CliError, exitCodes } from "./errors.ts";
import { openAccess, openPlatform } from "./local-platform.ts";

export interface Connection {
  client: Client;
  /** Closes the platform if this process started it. */
  close(): Promise<void>;
}

/**
 * Starts the platform of the data folder in this process, on a free port of this machine. `stays`:
 * it serves other commands until it is stopped. Throws CliError when another process uses the
 * folder.
 */
export async function openOwnPlatform(configured: Config, { stays = false } = {}): Promise<Connection> {
  const level = process.env.SANDPIPER_LOG_LEVEL ? {} : { logLevel: "fatal" as const };
  const config = { ...configured, host: "127.0.0.1", port: 0, publicUrl: undefined, ...level };
  const platform = await openPlatform(config).catch((error: unknown) => {
    if (!/is in use by another/.test((error as Error).message)) throw error;
    throw new CliError(
      `A server that this user may not use has the data folder ${config.dataDir}: set SANDPIPER_URL and SANDPIPER_API_KEY to use that server, or SANDPIPER_DATA to another folder.`,
      { cause: error, exitCode: exitCodes.usage },
    );
  });
  if (platform.newApiKey)
    process.stderr.write(`API key of this data folder (shown only this once): ${platform.newApiKey}\n`);
  const { client, release } = await openAccess(platform, { dataDir: config.dataDir, stays });
  return {
    client,
    close: async () => {
      await release();
      await platform.close();
    },
  };
}
