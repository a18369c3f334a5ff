import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { Parser } from "tar";
import { CliError } from "../errors.ts";
import { inertLine } from "../inert.ts";
import { createTemporaryFolder } from "../temporary-folder.ts";

const name = "@openhands/agent-canvas";

export const canvasVersion = "1.20.0";

/** Digest of the package as it was released. */
const integrity =
  "sha512-uq28bmdMapsDN0ltp5ZHYm9xfuk7cHktNkd0NY38w/UTq25wJTqSKSPya+2+ky0+HpGX2vmn0uF3mHuNCoOb2w==";

/** The folder of the package that has the pages. */
const pages = "package/build";

/** Maximum output of npm, bytes; it lists 11,000 files. */
const maxOutputBytes = 64 * 2 ** 20;

/** What npm prints with --json when it fails. */
interface NpmFailure {
  error?: { code?: string; summary?: string };
}

/**
 * The files of Agent Canvas by their paths, from the package in the cache, which npm fetches first
 * if it is missing. Files are read from the verified archive only, never from an unpacked copy.
 * Throws CliError when npm is missing or fails, and when the digest differs.
 */
export async function loadCanvas(signal: AbortSignal): Promise<Map<string, Buffer>> {
  const file = join(cacheFolder(), `agent-canvas-${canvasVersion}.tgz`);
  const kept = await readFile(file).catch(() => undefined);
  if (kept && digestOf(kept) === integrity) return unpack(kept);
  process.stderr.write(`Fetching ${name} ${canvasVersion} with npm (17 MB, only this once) …\n`);
  return unpack(await fetchInto(file, signal));
}

function cacheFolder(): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "sandpiper");
}

/** Fetches the package next to its place, checks it and moves it there. */
async function fetchInto(file: string, signal: AbortSignal): Promise<Buffer> {
  const folder = await createTemporaryFolder("gui");
  try {
    await runNpm(folder.path, signal);
    const fetched = join(folder.path, `openhands-agent-canvas-${canvasVersion}.tgz`);
    const archive = await readFile(fetched);
    const digest = digestOf(archive);
    if (digest !== integrity)
      throw new CliError(
        `npm delivered another ${name} ${canvasVersion} than the released one (${digest} instead of ${integrity}), so it is not used: check npm's registry setting.`,
      );
    await keep(archive, file);
    return archive;
  } finally {
    await folder.remove();
  }
}

/** Stores the archive; a cache that cannot be written only costs the next fetch. */
async function keep(archive: Buffer, file: string): Promise<void> {
  const temporary = `${file}.${process.pid}`;
  try {
    await mkdir(dirname(file), { recursive: true });
    await writeFile(temporary, archive);
    await rename(temporary, file);
  } catch (error) {
    process.stderr.write(
      `sandpiper: ${inertLine(file)} could not be written: ${inertLine((error as Error).message)}\n`,
    );
  }
}

/** Lets npm write the archive of the package into a folder. Throws CliError. */
async function runNpm(folder: string, signal: AbortSignal): Promise<void> {
  // Without scripts and dependencies: only the archive is wanted. npm waits 70 s by default before
  // it gives up without a network.
  const args = [
    ...["pack", `${name}@${canvasVersion}`, "--ignore-scripts", "--json"],
    ...["--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"],
    ...["--pack-destination", folder],
  ];
  const options = { cwd: folder, maxBuffer: maxOutputBytes, signal };
  await new Promise<void>((resolve, reject) => {
    execFile("npm", args, options, (error, stdout) => {
      if (!error) return resolve();
      if (signal.aborted) return reject(signal.reason);
      if (error.code === ("ENOENT" as unknown))
        return reject(new CliError("npm is missing: install it, then run this again.", { cause: error }));
      reject(
        new CliError(
          `npm could not fetch ${name} ${canvasVersion}: ${describeFailure(stdout)}. Check the connection to npm's registry, then run this again.`,
          { cause: error },
        ),
      );
    });
  });
}

function describeFailure(stdout: string): string {
  try {
    const { code, summary } = (JSON.parse(stdout) as NpmFailure).error ?? {};
    return inertLine((summary || code || "no reason given").split("\n")[0]!).replace(/\.$/, "");
  } catch {
    return "no reason given";
  }
}

function digestOf(archive: Buffer): string {
  return `sha512-${createHash("sha512").update(archive).digest("base64")}`;
}

/** The files below `pages`, by paths that begin with a slash. */
async function unpack(archive: Buffer): Promise<Map<string, Buffer>> {
  const files = new Map<string, Buffer>();
  await new Promise<void>((resolve, reject) => {
    const parser = new Parser({
      strict: true,
      filter: (path) => path.startsWith(`${pages}/`),
      onReadEntry: (entry) => {
        const chunks: Buffer[] = [];
        entry.on("data", (chunk: Buffer) => chunks.push(chunk));
        entry.on("end", () => files.set(entry.path.slice(pages.length), Buffer.concat(chunks)));
      },
    });
    parser.on("error", reject);
    parser.on("end", () => resolve());
    parser.end(archive);
  });
  return files;
}
