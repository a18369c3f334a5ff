import { globSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { canvasVersion } from "@sandpiper/server/cli/gui/canvas-package";
import { runCanvas } from "./canvas.ts";
import { writeMatrix } from "./matrix.ts";
import { startClientPlatform } from "./platform.ts";
import { findPython, installSdk, sdks } from "./python.ts";
import { nameOf, type Result, type Runner, runChecks } from "./run-checks.ts";
import { installTypescriptClient, typescriptClients } from "./typescript.ts";

/**
 * `npm run test:clients`: runs scripts of users with the released clients against a real server and
 * real sandboxes. Exit code 1 when a check fails.
 */
const root = join(import.meta.dirname, "../..");
const cache = join(root, ".cache/clients");
const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** Versions of the clients, separated by commas. */
    versions: { type: "string" },
    /** How often the checks of `run()` repeat. */
    repeat: { type: "string", default: "5" },
    /** Renews docs/clients/matrix.md also from a run of a part. */
    matrix: { type: "boolean" },
    /** A file that gets a line for each failed check: the words that run it again. */
    failed: { type: "string" },
    /** Seconds that one check may take. */
    timeout: { type: "string", default: "180" },
  },
});

const results: Result[] = [];
mkdirSync(cache, { recursive: true });
const platform = await startClientPlatform();
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.once(signal, () => void platform.stop().finally(() => process.exit(130)));
try {
  await runTypescript();
  await runPython();
  if (isWantedVersion(canvasVersion) && isWanted("agent_canvas")) await runCanvas(root, cache, print);
} finally {
  await platform.stop();
}
if (options.matrix || (positionals.length === 0 && !options.versions)) writeMatrix(root, results);
const failed = results.filter(({ result }) => result === "failed");
console.log(`${results.length - failed.length} passed, ${failed.length} failed`);
if (options.failed) writeFileSync(options.failed, [...new Set(failed.map(againOf))].join(""));
process.exitCode = failed.length > 0 ? 1 : 0;

/** The line of `--failed` for a check. The checks of Agent Canvas run together. */
function againOf({ client, version, check }: Result): string {
  return `${client === "Agent Canvas" ? "agent_canvas" : check} --versions ${version}\n`;
}

async function runTypescript(): Promise<void> {
  const checks = checksOf("typescript");
  if (checks.length === 0) return;
  for (const version of typescriptClients.filter(isWantedVersion)) {
    const env = { CLIENT: installTypescriptClient(cache, version) };
    const command = [process.execPath, join(import.meta.dirname, "typescript/run.ts")];
    await runAll({ client: "TypeScript client", version, command, env }, "typescript", checks);
  }
}

async function runPython(): Promise<void> {
  const checks = checksOf("python");
  if (checks.length === 0) return;
  const python = findPython();
  if (!python) {
    console.log("NOT RUN: the Python SDK needs Python 3.12 or newer, and none was found.");
    return;
  }
  for (const sdk of sdks.filter(({ version }) => isWantedVersion(version))) {
    const command = [installSdk(python, cache, sdk), join(import.meta.dirname, "python/run.py")];
    const env = {
      PYTHONPATH: join(import.meta.dirname, "python"),
      OPENHANDS_SUPPRESS_BANNER: "1",
      // Without it each process asks a site for prices, three times.
      LITELLM_LOCAL_MODEL_COST_MAP: "True",
    };
    await runAll({ client: "Python SDK", version: sdk.version, command, env }, "python", checks);
  }
}

/** The checks of a folder whose names contain one of the words of the command line. */
function checksOf(folder: string): string[] {
  return globSync(join(import.meta.dirname, folder, "checks/*"))
    .filter((path) => isWanted(nameOf(path)))
    .sort();
}

async function runAll(
  { env, ...runner }: Pick<Runner, "client" | "version" | "command" | "env">,
  folder: string,
  checks: readonly string[],
): Promise<void> {
  await runChecks(
    {
      ...runner,
      env: { ...process.env, ...platform.env, REPEAT: options.repeat, ...env },
      log: join(cache, `${folder}-${runner.version}.log`),
      timeoutMs: Number(options.timeout) * 1000,
      onResult: print,
    },
    checks,
  );
}

function isWantedVersion(version: string): boolean {
  return !options.versions || options.versions.split(",").includes(version);
}

function isWanted(check: string): boolean {
  return positionals.length === 0 || positionals.some((word) => check.includes(word));
}

function print(result: Result): void {
  results.push(result);
  const { client, version, check, result: outcome, detail, seconds } = result;
  const reason = detail && `: ${detail.split("\n")[0]}`;
  console.log(
    `${outcome.toUpperCase().padEnd(7)} ${client} ${version}  ${check} (${seconds.toFixed(1)} s)${reason}`,
  );
}
