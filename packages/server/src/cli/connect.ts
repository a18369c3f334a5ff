import { Client } from "./client.ts";
import { CliError, exitCodes } from "./errors.ts";
import { inertJson } from "./inert.ts";
import { loadConfig, localClient, openPlatform } from "./local-platform.ts";

/**
 * Connects to SANDPIPER_URL, or starts the platform of the data folder in this process until
 * `close`. Throws CliError for invalid variables, or when a server uses the folder.
 */
export async function connect(): Promise<{ client: Client; close(): Promise<void> }> {
  const { SANDPIPER_URL: url, SANDPIPER_API_KEY: key } = process.env;
  if (url) {
    if (!URL.canParse(url) || !/^https?:/.test(url))
      throw new CliError(`SANDPIPER_URL must be an http or https address, not ${inertJson(url)}.`, {
        exitCode: exitCodes.usage,
      });
    if (!key)
      throw new CliError("SANDPIPER_API_KEY is not set: set it to a key of the server at SANDPIPER_URL.", {
        exitCode: exitCodes.usage,
      });
    return { client: new Client(url, key), close: async () => {} };
  }
  const level = process.env.SANDPIPER_LOG_LEVEL ? {} : { logLevel: "fatal" as const };
  const config = { ...loadConfig(), host: "127.0.0.1", port: 0, publicUrl: undefined, ...level };
  const platform = await openPlatform(config).catch((error: unknown) => {
    if (!/is in use by another/.test((error as Error).message)) throw error;
    throw new CliError(
      `A server is using the data folder ${config.dataDir}: set SANDPIPER_URL and SANDPIPER_API_KEY to use that server, or SANDPIPER_DATA to another folder.`,
      { cause: error, exitCode: exitCodes.usage },
    );
  });
  if (platform.newApiKey)
    process.stderr.write(`API key of this data folder (shown only this once): ${platform.newApiKey}\n`);
  const { client, release } = await localClient(platform);
  return {
    client,
    close: async () => {
      await release();
      await platform.close();
    },
  };
}
