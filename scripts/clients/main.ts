import { globSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { canvasVersion } from "@sandpiper/server/cli/gui/canvas-package";
import { runCanvas } from "./canvas.ts";
import { writeMatrix } from "./matrix.ts";
import { type ClientPlatform, startClientPlatform } from "./platform.ts";
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

/** One client in one version: runs checks. */
type Part = () => Promise<void>;

/** How many parts run at once. Each has a server of its own, whose settings its checks change. */
const maxParts = 2;

const results: Result[] = [];
mkdirSync(cache, { recursive: true });
const platforms = new Set<ClientPlatform>();
const stopAll = () => Promise.all([...platforms].map((platform) => platform.stop()));
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.once(signal, () => void stopAll().finally(() => process.exit(130)));
// The clients are installed before the first check begins: an installation holds up this process.
const parts = [...pythonParts(), ...typescriptParts(), ...canvasParts()];
const workers = Array.from({ length: maxParts }, async () => {
  for (let part = parts.shift(); part; part = parts.shift()) await part();
});
await Promise.all(workers).finally(stopAll);
if (options.matrix || (positionals.length === 0 && !options.versions)) writeMatrix(root, results);
const failed = results.filter(({ result }) => result === "failed");
console.log(`${results.length - failed.length} passed, ${failed.length} failed`);
if (options.failed) writeFileSync(options.failed, [...new Set(failed.map(againOf))].join(""));
process.exitCode = failed.length > 0 ? 1 : 0;

/** The line of `--failed` for a check. The checks of Agent Canvas run together. */
function againOf({ client, version, check }: Result): string {
  return `${client === "Agent Canvas" ? "agent_canvas" : check} --versions ${version}\n`;
}

function typescriptParts(): Part[] {
  const checks = checksOf("typescript");
  if (checks.length === 0) return [];
  return typescriptClients.filter(isWantedVersion).map((version) => {
    const env = { CLIENT: installTypescriptClient(cache, version) };
    const command = [process.execPath, join(import.meta.dirname, "typescript/run.ts")];
    return () => runAll({ client: "TypeScript client", version, command, env }, "typescript", checks);
  });
}

function pythonParts(): Part[] {
  const checks = checksOf("python");
  if (checks.length === 0) return [];
  const python = findPython();
  if (!python) {
    console.log("NOT RUN: the Python SDK needs Python 3.12 or newer, and none was found.");
    return [];
  }
  // Each version in two parts of about the same length, so that all places are used to the end.
  const halves = [checks.filter(isOfRun), checks.filter((path) => !isOfRun(path))];
  return sdks
    .filter(({ version }) => isWantedVersion(version))
    .flatMap((sdk) => {
      const command = [installSdk(python, cache, sdk), join(import.meta.dirname, "python/run.py")];
      const env = {
        PYTHONPATH: join(import.meta.dirname, "python"),
        OPENHANDS_SUPPRESS_BANNER: "1",
        // Without it each process asks a site for prices, three times.
        LITELLM_LOCAL_MODEL_COST_MAP: "True",
      };
      const runner = { client: "Python SDK", version: sdk.version, command, env };
      return halves.filter(({ length }) => length > 0).map((half) => () => runAll(runner, "python", half));
    });
}

/** Whether a check repeats calls of `run()`, which takes longer. */
function isOfRun(path: string): boolean {
  return nameOf(path).startsWith("run_");
}

function canvasParts(): Part[] {
  return isWantedVersion(canvasVersion) && isWanted("agent_canvas")
    ? [() => runCanvas(root, cache, print)]
    : [];
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
  const platform = await startClientPlatform();
  platforms.add(platform);
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
  platforms.delete(platform);
  await platform.stop();
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
