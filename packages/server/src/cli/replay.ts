import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { closedOutbound } from "@sandpiper/core/outbound/closed";
import type { Config } from "../config/config.ts";
import type { Platform } from "../platform.ts";
import { RecordingUnusable, readRecording } from "../recording/read.ts";
import { type ReplayReport, replay } from "../recording/replay.ts";
import { formatReport } from "../recording/report.ts";
import { Client } from "./client.ts";
import { CliError, exitCodes } from "./errors.ts";
import { inert, inertJson } from "./inert.ts";
import { loadConfig } from "./load-config.ts";
import { openPlatform } from "./local-platform.ts";
import { Interrupted, onStop } from "./signals.ts";
import { createTemporaryFolder } from "./temporary-folder.ts";
import { packFolder } from "./tree.ts";

export interface ReplayCommandOptions {
  spec?: string;
  dir?: string;
  json?: boolean;
}

/**
 * `sandpiper replay`: prints the differences between a replay and a recording. Returns the exit
 * code: 0 no difference, 1 differences, 2 unusable recording.
 */
export async function replayCommand(file: string, options: ReplayCommandOptions): Promise<number> {
  const report = await replayFile(file, options);
  process.stdout.write(options.json ? `${inertJson(report, 2)}\n` : inert(formatReport(report)));
  return report.divergences.length === 0 ? exitCodes.ok : exitCodes.failed;
}

/** Replays a recording on a temporary platform. Throws CliError. */
export async function replayFile(
  file: string,
  { spec, dir }: Pick<ReplayCommandOptions, "spec" | "dir">,
): Promise<ReplayReport> {
  const folder = await createTemporaryFolder("replay");
  let platform: Platform | undefined;
  const abort = new AbortController();
  const restore = onStop((signal) => abort.abort(new Interrupted(signal)));
  try {
    const recording = await readRecording(file);
    const logLevel = process.env.SANDPIPER_LOG_LEVEL ? {} : { logLevel: "fatal" as const };
    const own = loadConfig();
    const config = {
      ...{
        ...own,
        ...logLevel,
        dataDir: folder.path,
        specsFile: findSpecsFile(own),
        host: "127.0.0.1",
        port: 0,
      },
      ...{
        publicUrl: undefined,
        apiKey: undefined,
        webhook: undefined,
        maxRuns: 0,
        dailyBudget: 0,
        skillsDir: undefined,
      },
    };
    return await replay(recording, {
      start: async (parts) => {
        // An empty environment, and no requests: what a recording names is neither known nor asked.
        platform = await openPlatform(config, { env: {}, outbound: closedOutbound, ...parts });
        return platform;
      },
      specId: spec,
      signal: abort.signal,
      fill:
        dir === undefined
          ? undefined
          : (sandboxId, workingDir) => upload(platform!, resolve(dir), sandboxId, workingDir),
    });
  } catch (error) {
    if (!(error instanceof RecordingUnusable)) throw error;
    throw new CliError(error.message, { cause: error, exitCode: exitCodes.usage });
  } finally {
    await platform?.close();
    await folder.remove();
    restore();
  }
}

/** The replay, which has its own data folder, uses the specs of the configured one. */
function findSpecsFile({ specsFile, dataDir }: Config): string | undefined {
  const usual = join(dataDir, "specs.json");
  return specsFile ?? (existsSync(usual) ? usual : undefined);
}

async function upload(
  { url, newApiKey }: Platform,
  dir: string,
  sandboxId: string,
  workingDir: string,
): Promise<void> {
  await new Client(url, newApiKey!).upload(sandboxId, workingDir, packFolder(dir));
}
