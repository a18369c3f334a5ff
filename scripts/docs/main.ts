import { execFileSync, spawn } from "node:child_process";
import { globSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { preparePython } from "./python.ts";
import { type Page, PageError, readPage } from "./read-page.ts";
import type { Failure } from "./run-page.ts";

/**
 * Executes the code blocks of the documentation (`npm run test:docs`; CONTRIBUTING.md describes the
 * comments that steer it). Each page has a shell, a server with the demo model, and a network
 * without a way out of its own. Exit code 1: a page failed.
 */
const root = join(import.meta.dirname, "../..");
const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    /** Seconds that one block may take. */
    timeout: { type: "string", default: "150" },
    jobs: { type: "string", default: "2" },
    /** A file that gets the paths of the pages that failed, one a line. */
    failed: { type: "string" },
  },
});

interface Result {
  path: string;
  executed: number;
  notExecuted: { line: number; reason: string }[];
  failure: Failure | null;
}

process.chdir(root);
const pages = positionals.length > 0 ? positionals : defaultPages();
// Pages that start at the same time find the server's bundle.
execFileSync("scripts/server-main", { stdio: "ignore" });
/** Ends the pages that run; each ends its server. */
const stops = new Set<() => void>();
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.on(signal, () => {
    waiting.length = 0;
    for (const stop of stops) stop();
  });
const waiting = [...pages];
const results: Result[] = [];
await Promise.all(
  Array.from({ length: Number(options.jobs) }, async () => {
    for (let path = waiting.shift(); path !== undefined; path = waiting.shift())
      results.push(await test(path));
  }),
);
summarize();

function defaultPages(): string[] {
  const left = ["docs/contract/", "docs/understand/internals/"];
  const all = globSync("docs/**/*.md").filter((path) => !left.some((folder) => path.startsWith(folder)));
  return ["README.md", ...all.sort()];
}

/** Executes a page and prints its line. */
async function test(path: string): Promise<Result> {
  const began = Date.now();
  const result: Result = { path, executed: 0, notExecuted: [], failure: null };
  try {
    const page = readPage(path);
    for (const { line, notExecuted } of page.blocks)
      if (notExecuted === undefined) result.executed++;
      else result.notExecuted.push({ line, reason: notExecuted });
    if (result.executed > 0) result.failure = await executePage(page);
  } catch (error) {
    result.failure = { line: error instanceof PageError ? error.line : 1, message: (error as Error).message };
  }
  const { executed, notExecuted, failure } = result;
  const seconds = ((Date.now() - began) / 1000).toFixed(1);
  const counts = `${executed} blocks executed, ${notExecuted.length} not, ${seconds} s`;
  if (failure) console.log(`FAILED ${path}:${failure.line}: ${failure.message}`);
  else console.log(`passed ${path}: ${counts}`);
  return result;
}

/** Executes a page in namespaces of its own, whose end also ends whatever the page started. */
async function executePage(page: Page): Promise<Failure | null> {
  const bin = page.python ? preparePython(page.python) : "";
  const folder = mkdtempSync(join(tmpdir(), "sandpiper-docs-"));
  const runner = join(import.meta.dirname, "run-page.ts");
  const child = spawn(
    "unshare",
    [
      ...["--net", "--mount", "--pid", "--fork", "--kill-child=SIGTERM", "--mount-proc"],
      ...[process.execPath, runner, page.path, folder, options.timeout, bin],
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const stop = () => child.kill("SIGTERM");
  stops.add(stop);
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const code = await new Promise((resolve) =>
    child.once("close", (status, signal) => resolve(status ?? signal)),
  );
  stops.delete(stop);
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  if (output === "") return { line: 1, message: `the page ended with ${code} and no result.` };
  return JSON.parse(output) as Failure | null;
}

function summarize(): void {
  results.sort((one, other) => pages.indexOf(one.path) - pages.indexOf(other.path));
  const failed = results.filter(({ failure }) => failure);
  for (const { path, notExecuted } of results)
    for (const { line, reason } of notExecuted) console.log(`not executed ${path}:${line}: ${reason}`);
  const executed = results.reduce((sum, result) => sum + result.executed, 0);
  const not = results.reduce((sum, result) => sum + result.notExecuted.length, 0);
  console.log(
    `${results.length} pages, ${executed} blocks executed, ${not} not (each with its reason), ${failed.length} failed`,
  );
  console.log(`${results.length - failed.length} passed, ${failed.length} failed`);
  if (options.failed) writeFileSync(options.failed, failed.map(({ path }) => `${path}\n`).join(""));
  process.exitCode = failed.length > 0 ? 1 : 0;
}
