import { Client } from "./client.ts";
import { CliError, exitCodes } from "./errors.ts";
import { inertJson } from "./inert.ts";
import { loadConfig } from "./load-config.ts";
import type { Connection } from "./own-platform.ts";
import { findServer } from "./server-file.ts";

/**
 * Connects to SANDPIPER_URL, else to the server that uses the data folder, else starts the platform
 * of the data folder in this process until `close`. `works`: the caller needs the server for
 * longer, so the server of another command, which may end at any time, does not do. Throws CliError
 * for invalid variables, or when another process uses the folder and cannot be reached.
 */
export async function connect({ works = false } = {}): Promise<Connection> {
  const { SANDPIPER_URL: url, SANDPIPER_API_KEY: key } = process.env;
  if (url) return { client: remoteClient(url, key), close: async () => {} };
  const config = loadConfig();
  const server = findServer(config.dataDir);
  if (server && works && !server.stays)
    throw new CliError(
      `Another command (process ${server.pid}) uses the data folder ${config.dataDir}: start "sandpiper serve", then any number of commands works at the same time.`,
      { exitCode: exitCodes.usage },
    );
  if (server) return { client: new Client(server.url, server.key), close: async () => {} };
  const { openOwnPlatform } = await import("./own-platform.ts");
  return openOwnPlatform(config);
}

function remoteClient(url: string, key: string | undefined): Client {
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw new CliError(`SANDPIPER_URL must be an http or https address, not ${inertJson(url)}.`, {
      exitCode: exitCodes.usage,
    });
  if (!key)
    throw new CliError("SANDPIPER_API_KEY is not set: set it to a key of the server at SANDPIPER_URL.", {
      exitCode: exitCodes.usage,
    });
  return new Client(url, key);
}
