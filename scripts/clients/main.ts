import { globSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { runCanvas } from "./canvas.ts";
import { writeMatrix } from "./matrix.ts";
import { startClientPlatform } from "./platform.ts";
import { findPython, installSdk, sdks } from "./python.ts";
import { nameOf, type Result, type Runner, runChecks } from "./run-checks.ts";

/**
 * `npm run test:clients`: runs scripts of users with the released clients against a real server and
 * real sandboxes. Exit code 1 when a check fails.
 */
const root = join(import.meta.dirname, "../..");
const cache = join(root, ".cache/clients");
const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** Versions of the Python SDK, separated by commas. */
    versions: { type: "string" },
    /** How often the checks of `run()` repeat. */
    repeat: { type: "string", default: "5" },
    /** Renews docs/clients/matrix.md also from a run of a part. */
    matrix: { type: "boolean" },
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
  await runTypeScript();
  await runPython();
  if (!options.versions && isWanted("agent_canvas")) await runCanvas(root, cache, print);
} finally {
  await platform.stop();
}
if (options.matrix || (positionals.length === 0 && !options.versions)) writeMatrix(root, results);
const failed = results.filter(({ result }) => result === "failed");
console.log(`${results.length - failed.length} passed, ${failed.length} failed`);
process.exitCode = failed.length > 0 ? 1 : 0;

/** The version that package.json pins. */
async function runTypeScript(): Promise<void> {
  if (options.versions) return;
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    devDependencies: Record<string, string>;
  };
  const version = manifest.devDependencies["@openhands/typescript-client"]!;
  const command = [process.execPath, join(import.meta.dirname, "typescript/run.ts")];
  await runAll("TypeScript client", version, command, "typescript");
}

async function runPython(): Promise<void> {
  const python = findPython();
  if (!python) {
    console.log("NOT RUN: the Python SDK needs Python 3.12 or newer, and none was found.");
    return;
  }
  const wanted = options.versions?.split(",");
  for (const sdk of sdks) {
    if (wanted && !wanted.includes(sdk.version)) continue;
    const interpreter = installSdk(python, cache, sdk);
    await runAll(
      "Python SDK",
      sdk.version,
      [interpreter, join(import.meta.dirname, "python/run.py")],
      "python",
    );
  }
}

/** Runs the checks of a folder whose names contain one of the words of the command line. */
async function runAll(client: string, version: string, command: string[], folder: string): Promise<void> {
  const checks = globSync(join(import.meta.dirname, folder, "checks/*"))
    .filter((path) => isWanted(nameOf(path)))
    .sort();
  if (checks.length === 0) return;
  const runner: Runner = {
    client,
    version,
    command,
    env: {
      ...process.env,
      ...platform.env,
      REPEAT: options.repeat,
      PYTHONPATH: join(import.meta.dirname, "python"),
      OPENHANDS_SUPPRESS_BANNER: "1",
      // Without it each process asks a site for prices, three times.
      LITELLM_LOCAL_MODEL_COST_MAP: "True",
    },
    log: join(cache, `${folder}-${version}.log`),
    timeoutMs: Number(options.timeout) * 1000,
    onResult: print,
  };
  await runChecks(runner, checks);
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
