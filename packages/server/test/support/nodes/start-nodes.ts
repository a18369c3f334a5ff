import type { Config } from "../../../src/config/config.ts";
import { type Platform, type PlatformOptions, startPlatform } from "../../../src/platform.ts";
import { startRoundRobin } from "./round-robin.ts";
import { variables } from "./variables.ts";

/** Servers of a test behind one address. */
export interface Nodes {
  /** The servers. Tests read the stored data of the first one. */
  platforms: readonly [Platform, ...Platform[]];
  /** The address of all servers, without a trailing slash. */
  url: string;
  close(): Promise<void>;
}

/**
 * Starts as many servers as the run asks for, all with this configuration. Several servers share
 * the database and the data folder, and have a round-robin proxy in front.
 */
export async function startNodes(config: Config, options: PlatformOptions): Promise<Nodes> {
  const count = Number(process.env[variables.nodes] ?? 1);
  if (count === 1 || !config.database) {
    const platform = await startPlatform(config, options);
    return { platforms: [platform], url: platform.url, close: () => platform.close() };
  }
  const proxy = await startRoundRobin();
  const platforms: Platform[] = [];
  const close = async () => {
    await Promise.all(platforms.map((platform) => platform.close()));
    await proxy.close();
  };
  try {
    const shared = { ...config, publicUrl: config.publicUrl ?? proxy.url };
    while (platforms.length < count) platforms.push(await startPlatform(shared, options));
    proxy.nodes = platforms.map(({ url }) => url);
    const [first, ...others] = platforms;
    return { platforms: [first!, ...others], url: proxy.url, close };
  } catch (error) {
    await close();
    throw error;
  }
}
