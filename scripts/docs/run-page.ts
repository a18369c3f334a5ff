import { join } from "node:path";
import { findMismatch } from "./match-output.ts";
import { home, place, prepareFolder, root, showPaths } from "./prepare-folder.ts";
import { type Block, PageError, readPage } from "./read-page.ts";
import { key, Server, url } from "./server.ts";
import { Shell } from "./shell.ts";

/**
 * Executes one page as process 1 of its own namespaces (main.ts makes them) and prints the failure
 * as JSON, `null` without one. Arguments: the page, an empty folder, the time of a block in
 * seconds, and the `bin` folder of the page's Python, which may be empty.
 */
const [path = "", folder = "", seconds = "", python = ""] = process.argv.slice(2);
const timeoutMs = Number(seconds) * 1000;
const serverTimeoutMs = 120_000;

export interface Failure {
  line: number;
  message: string;
}

const page = readPage(path);
const env = prepareFolder(folder, python);
const server =
  page.server &&
  new Server(join(root, "bin/sandpiper"), { ...env, ...page.server }, join(place, "server.log"));
const shell = new Shell(join(place, "blocks"), join(home, "sandpiper"), { ...env, URL: url, KEY: key });
let failure: Failure | null = null;
let stopped = false;
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.on(signal, () => {
    stopped = true;
    shell.end();
  });

try {
  await server?.start(serverTimeoutMs);
  for (const block of page.blocks) await execute(block);
  const end = server?.ended();
  if (end) throw new Error(end);
} catch (error) {
  const line = error instanceof PageError ? error.line : 1;
  failure = { line, message: error instanceof Error ? error.message : String(error) };
}
if (stopped) failure = { line: 1, message: "stopped." };
shell.end();
try {
  await server?.stop(serverTimeoutMs);
} catch (error) {
  failure ??= { line: 1, message: `the server does not end: ${error}` };
}
// Process 1 ends all others of the page.
process.stdout.write(`${JSON.stringify(failure)}\n`, () => process.exit(0));

async function execute(block: Block): Promise<void> {
  if (block.notExecuted !== undefined) return;
  for (const { line, text } of block.prepare) await run(line, text, 0);
  const output = await run(block.line, scriptOf(block), block.exit, block.language !== "sh");
  const { expected } = block;
  const mismatch = expected && findMismatch(expected.text, output, expected.language);
  if (mismatch !== undefined)
    throw new PageError(
      expected!.line + mismatch,
      `the block prints something else. Expected:\n${quote(expected!.text)}\nPrinted:\n${quote(output)}`,
    );
}

/** The bash commands that run a block, or write its file. */
function scriptOf({ language, text, file }: Block): string {
  const save = (extension: string) => `'${shell.file(extension, `${text}\n`)}'`;
  if (file !== undefined) return `mkdir -p -- "$(dirname -- ${file})" && cp -- ${save("txt")} ${file}`;
  if (language === "sh") return text;
  if (language === "python") return `python ${save("py")}`;
  return `"$DOCS_ROOT/scripts/node" ${save(language === "ts" ? "mts" : "mjs")}`;
}

/** Runs commands and returns what they print. Throws `PageError` if they fail. */
async function run(line: number, script: string, exit: number, oneCommand = false): Promise<string> {
  const outcome = await shell.run(script, { strict: exit === 0, timeoutMs });
  const output = showPaths(outcome.output, folder);
  const end = server?.ended();
  if (end) throw new PageError(line, `${end}\nPrinted:\n${quote(output)}`);
  if (outcome.code === exit) return output;
  const at = outcome.line === undefined || oneCommand ? line : line + outcome.line - 1;
  const what =
    outcome.code === undefined ? `runs for more than ${seconds} s` : `ends with ${outcome.code}, not ${exit}`;
  throw new PageError(at, `the block ${what}. Printed:\n${quote(output)}`);
}

function quote(text: string): string {
  const lines = text.trimEnd().split("\n");
  const shown =
    lines.length > 60
      ? [...lines.slice(0, 40), `… ${lines.length - 60} lines …`, ...lines.slice(-20)]
      : lines;
  return shown.map((line) => `  | ${line}`).join("\n");
}
