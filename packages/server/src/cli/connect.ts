import { setTimeout as delay } from "node:timers/promises";
import type { Config } from "../config/config.ts";
import { Client } from "./client.ts";
import { CliError, exitCodes } from "./errors.ts";
import { inertJson } from "./inert.ts";
import { loadConfig } from "./load-config.ts";
import type { Connection } from "./own-platform.ts";
import { findServer, type RunningServer } from "./server-file.ts";

/** How long a server may take from the lock of its data folder to its first answer, ms. */
const startMs = 5_000;

const pollMs = 50;

/**
 * Connects to SANDPIPER_URL, else to the server that uses the data folder, else starts the platform
 * of the data folder in this process until `close`. `works`: the caller needs the server for
 * longer, so the server of another command, which may end at any time, does not do. `stays`: a
 * platform that starts in this process serves other commands, too, until it is stopped. Throws
 * CliError for invalid variables, or when another process uses the folder and cannot be reached.
 */
export async function connect({ works = false, stays = false } = {}): Promise<Connection> {
  const { SANDPIPER_URL: url, SANDPIPER_API_KEY: key } = process.env;
  if (url) return { client: remoteClient(url, key), close: async () => {} };
  const config = loadConfig();
  const server = findServer(config.dataDir);
  if (server) return { client: localClient(server, works, config), close: async () => {} };
  const { openOwnPlatform } = await import("./own-platform.ts");
  try {
    return await openOwnPlatform(config, { stays });
  } catch (error) {
    // Another process is starting on the folder, or has just started.
    const found = isInUse(error) ? await waitForServer(config.dataDir) : undefined;
    if (!found) throw error;
    return { client: localClient(found, works, config), close: async () => {} };
  }
}

/** Throws CliError when SANDPIPER_URL is set and cannot be used. Asks no server. */
export function checkServerVariables(): void {
  const { SANDPIPER_URL: url, SANDPIPER_API_KEY: key } = process.env;
  if (url) remoteClient(url, key);
}

function localClient(server: RunningServer, works: boolean, { dataDir }: Pick<Config, "dataDir">): Client {
  if (!works || server.stays) return new Client(server.url, server.key);
  throw new CliError(
    `Another command (process ${server.pid}) uses the data folder ${dataDir}: start "sandpiper serve", then any number of commands works at the same time.`,
    { exitCode: exitCodes.usage },
  );
}

/** The failure that `openOwnPlatform` explains. */
function isInUse(error: unknown): boolean {
  return (
    error instanceof CliError && error.cause instanceof Error && /in use by another/.test(error.cause.message)
  );
}

/** The server that another process publishes soon. */
async function waitForServer(dataDir: string): Promise<RunningServer | undefined> {
  for (const end = performance.now() + startMs; performance.now() < end; await delay(pollMs)) {
    const server = findServer(dataDir);
    if (server) return server;
  }
  return undefined;
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
