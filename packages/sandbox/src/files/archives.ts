import { Readable } from "node:stream";
import { createGzip } from "node:zlib";
import { PlatformError } from "@sandpiper/core/errors";
import { collect, exitCode, runToEnd } from "../shell/run.ts";
import { expandSparse } from "../tar/expand-sparse.ts";
import { TarInvalid } from "../tar/tar-header.ts";
import { excludeMatcher } from "./exclude-matcher.ts";
import { packScript, readsSparseScript, tarLacksOption, unpackScript } from "./file-scripts.ts";
import { type CommandRunner, checkAlive, checkPath, failureReason, toScriptCommand } from "./files.ts";
import { freeBuffers } from "./free-buffers.ts";
import { pipeToStdin } from "./pipe-to-stdin.ts";
import { filterTar, type TarEntry } from "./tar-filter.ts";

/** Kept stderr of a failing tar, bytes. */
const maxErrorBytes = 8_192;
/** Time in which a tar says what it is, ms. */
const probeTimeoutMs = 10_000;

export interface ArchiveOptions {
  /** The archive is compressed with gzip. */
  gzip?: boolean;
  signal?: AbortSignal;
}

/**
 * Unpacks a tar stream into a folder of the sandbox, which is created if missing. Files belong to
 * the sandbox's user; without `keepModes` its umask applies. Reads the source with backpressure.
 * `sparse`: it has holes in the form of PAX 1.0, which are filled where the sandbox's tar needs it.
 * Throws InvalidParameter when the archive cannot be unpacked, SandboxFailed, and the source's
 * error.
 */
export async function unpackArchive(
  sandbox: CommandRunner,
  folder: string,
  tar: Readable,
  { gzip, keepModes, sparse, signal }: ArchiveOptions & { keepModes?: boolean; sparse?: boolean } = {},
): Promise<void> {
  const source = sparse && !gzip && !(await readsSparse(sandbox)) ? expand(tar, folder) : tar;
  const words = [...(gzip ? ["-z"] : []), ...(keepModes ? ["-p"] : [])];
  const process = await sandbox.exec(toScriptCommand(sandbox, unpackScript, [checkPath(folder), ...words]));
  const errors = collect(process.stderr, maxErrorBytes);
  process.stdout.resume();
  // tar may end before the end of the stream: after the last file, or with a failure that its exit
  // code shows.
  const { sourceError } = await pipeToStdin(source, process.stdin, signal);
  if (sourceError) process.kill();
  const code = exitCode(await process.exit);
  if (sourceError) throw sourceError;
  if (code === 0) return;
  await checkAlive(sandbox, code);
  const reason = failureReason({ code, stderr: (await errors).kept });
  throw new PlatformError("ArchiveFailed", { action: "unpacked into", folder, reason });
}

/** Whether the tar of a sandbox reads files with holes. */
async function readsSparse(sandbox: CommandRunner): Promise<boolean> {
  const { code } = await runToEnd(sandbox, toScriptCommand(sandbox, readsSparseScript, []), {
    timeoutMs: probeTimeoutMs,
    maxOutputBytes: maxErrorBytes,
  });
  return code === 0;
}

function expand(tar: Readable, folder: string): Readable {
  async function* chunks(): AsyncGenerator<Buffer> {
    try {
      yield* expandSparse(tar);
    } catch (error) {
      if (!(error instanceof TarInvalid)) throw error;
      const reason = `it ${error.message}`;
      throw new PlatformError("ArchiveFailed", { action: "unpacked into", folder, reason });
    }
  }
  return Readable.from(chunks(), { objectMode: false });
}

/** Packs with a tar that can neither exclude nor omit holes: what is excluded is dropped here. */
async function* packPlainly(
  sandbox: CommandRunner,
  folder: string,
  { excludes = [], gzip, named, signal }: PackOptions,
): AsyncGenerator<Buffer> {
  const isExcluded = excludeMatcher(excludes.map((pattern) => pattern.replace(/^\.\//, "")));
  const keep = ({ name, kind }: TarEntry) =>
    !isExcluded(named ? name : name.replace(/^\.\//, ""), kind === "directory");
  const whole = await packArchive(sandbox, folder, { ...(named && { named }), ...(signal && { signal }) });
  const kept = filterTar(whole, { keep, last: () => undefined });
  yield* gzip ? Readable.from(kept, { objectMode: false }).compose(createGzip()) : kept;
}

interface PackOptions extends ArchiveOptions {
  excludes?: string[];
  sparse?: boolean;
  named?: boolean;
}

/**
 * Packs a folder of the sandbox as a tar stream with names relative to it (`./…`), or with `named`
 * below its own name. `excludes` are tar patterns such as `node_modules`. `sparse` omits holes, in
 * a form that GNU tar, bsdtar and Python read. The stream ends with InvalidParameter when something
 * could not be packed; destroying it ends tar.
 */
export async function packArchive(
  sandbox: CommandRunner,
  folder: string,
  options: PackOptions = {},
): Promise<Readable> {
  const { excludes = [], gzip, sparse, named, signal } = options;
  const words = [
    ...(gzip ? ["-z"] : []),
    ...(sparse ? ["--sparse"] : []),
    ...excludes.map((pattern) => `--exclude=${pattern}`),
  ];
  const process = await sandbox.exec(
    toScriptCommand(sandbox, packScript, [checkPath(folder), named ? "named" : "plain", ...words]),
  );
  process.stdin.end();
  const errors = collect(process.stderr, maxErrorBytes);
  async function* read(): AsyncGenerator<Buffer> {
    let isEmpty = true;
    for await (const chunk of freeBuffers(process.stdout)) {
      isEmpty = false;
      yield chunk;
    }
    const code = exitCode(await process.exit);
    // 1: a file changed while it was read, which is normal in a used folder.
    if (code === 0 || (code === 1 && !isEmpty)) return;
    if (code === tarLacksOption) return yield* packPlainly(sandbox, folder, options);
    await checkAlive(sandbox, code);
    const reason = failureReason({ code, stderr: (await errors).kept });
    throw new PlatformError("ArchiveFailed", { action: "packed from", folder, reason });
  }
  const stream = Readable.from(read(), { objectMode: false });
  // Also when the stream is never read.
  stream.once("close", () => {
    process.kill();
    process.stdout.destroy();
  });
  if (signal) {
    const abort = () => stream.destroy(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    stream.once("close", () => signal.removeEventListener("abort", abort));
  }
  return stream;
}
