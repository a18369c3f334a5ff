import { inertLine } from "./inert.ts";
import { loadConfig } from "./load-config.ts";
import { openAccess, openPlatform } from "./local-platform.ts";
import { onStop } from "./signals.ts";

/** Runs the platform until a signal ends it. */
export async function serve(): Promise<void> {
  // What a closed pipe or a full disk does not take is lost, and the server stays.
  process.stdout.removeAllListeners("error").on("error", () => {});
  let isStopped = false;
  const stopped = waitForSignal((signal) => {
    isStopped = true;
    process.stderr.write(`${signal}: shutting down; a second signal ends the server at once\n`);
  });
  const config = loadConfig();
  const platform = await openPlatform(config);
  if (isStopped) return platform.close();
  const access = await openAccess(platform, { dataDir: config.dataDir, stays: true });
  const loginUrl = await access.createLoginUrl();
  const lines = [`Sandpiper serves ${platform.url}`, `Data folder: ${inertLine(config.dataDir)}`];
  lines.push(`Log in with a browser (once, within ten minutes): ${loginUrl}`);
  if (platform.newApiKey) lines.push(`API key (shown only this once): ${platform.newApiKey}`);
  process.stdout.write(`${lines.join("\n")}\n`);
  await stopped;
  await access.release();
  await platform.close();
}

/** Resolves at the first stop signal. */
export function waitForSignal(onSignal: (signal: NodeJS.Signals) => void): Promise<void> {
  return new Promise((resolve) => {
    onStop((signal) => {
      onSignal(signal);
      resolve();
    });
  });
}
