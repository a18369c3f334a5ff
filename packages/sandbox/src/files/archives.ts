import { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { collect, exitCode } from "../shell/run.ts";
import { packScript, unpackScript } from "./file-scripts.ts";
import { type CommandRunner, checkAlive, checkPath, failureReason, toScriptCommand } from "./files.ts";
import { pipeToStdin } from "./pipe-to-stdin.ts";

/** How much of a failing tar's stderr is kept, bytes. */
const maxErrorBytes = 8_192;

export interface ArchiveOptions {
  /** The archive is compressed with gzip. */
  gzip?: boolean;
  signal?: AbortSignal;
}

/**
 * Unpacks a tar stream into a folder of the sandbox, which is made when it is missing. Files belong to the sandbox's user. With `keepModes` their
 * permissions are those of the archive, else what the sandbox's umask leaves of them.
 * The source is read only as fast as the sandbox takes it. Throws InvalidParameter when it cannot be unpacked, SandboxFailed, and the source's error.
 */
export async function unpackArchive(
  sandbox: CommandRunner,
  folder: string,
  tar: Readable,
  { gzip, keepModes, signal }: ArchiveOptions & { keepModes?: boolean } = {},
): Promise<void> {
  const words = [...(gzip ? ["-z"] : []), ...(keepModes ? ["-p"] : [])];
  const process = await sandbox.exec(toScriptCommand(sandbox, unpackScript, [checkPath(folder), ...words]));
  const errors = collect(process.stderr, maxErrorBytes);
  process.stdout.resume();
  // tar may end before it has read everything (padding after the last file, or a failure): its exit code says which.
  const { cut } = await pipeToStdin(tar, process.stdin, signal);
  if (cut) process.kill();
  const code = exitCode(await process.exit);
  if (cut) throw cut;
  if (code === 0) return;
  await checkAlive(sandbox, code);
  throw failure("unpacked into", folder, code, (await errors).kept);
}

/**
 * Packs a folder of the sandbox as a tar stream, names relative to it (`./…`). `excludes` are tar patterns such as `.git` or `node_modules`.
 * `sparse` leaves out the holes of files, in a form that GNU tar, bsdtar and Python read. With `named` the names begin with that of the folder.
 * The stream fails with InvalidParameter at its end when not everything could be packed; ending it early ends tar.
 */
export async function packArchive(
  sandbox: CommandRunner,
  folder: string,
  options: ArchiveOptions & { excludes?: string[]; sparse?: boolean; named?: boolean } = {},
): Promise<Readable> {
  const { excludes = [], gzip, sparse, named, signal } = options;
  const words = [
    ...(gzip ? ["-z"] : []),
    ...(sparse ? ["-S"] : []),
    ...excludes.map((pattern) => `--exclude=${pattern}`),
  ];
  const process = await sandbox.exec(
    toScriptCommand(sandbox, packScript, [checkPath(folder), named ? "named" : "plain", ...words]),
  );
  process.stdin.end();
  const errors = collect(process.stderr, maxErrorBytes);
  async function* read(): AsyncGenerator<Buffer> {
    yield* process.stdout;
    const code = exitCode(await process.exit);
    // 1: a file changed while it was read, which is normal for a folder in use.
    if (code <= 1) return;
    await checkAlive(sandbox, code);
    throw failure("packed from", folder, code, (await errors).kept);
  }
  const stream = Readable.from(read(), { objectMode: false });
  // Also where nobody ever begins to read.
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

function failure(what: string, folder: string, code: number, stderr: Buffer): PlatformError {
  return new PlatformError(
    "InvalidParameter",
    `The archive could not be ${what} ${folder}: ${failureReason({ code, stderr })}.`,
  );
}
