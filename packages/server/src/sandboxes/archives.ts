import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { PlatformError } from "../errors.ts";
import { packScript, unpackScript } from "./file-scripts.ts";
import { checked, reason } from "./files.ts";
import { collect, exitCode } from "./run.ts";
import type { Sandbox } from "./sandbox.ts";

/** How much of a failing tar's stderr is kept, bytes. */
const maxErrorBytes = 8_192;

/**
 * Unpacks a tar stream into a folder of the sandbox, which is made when it is missing. Files belong to the sandbox's user.
 * The source is read only as fast as the sandbox takes it. Throws InvalidParameter when it cannot be unpacked, and the source's error.
 */
export async function archiveIn(
  sandbox: Pick<Sandbox, "exec">,
  folder: string,
  tar: Readable,
  options: { signal?: AbortSignal } = {},
): Promise<void> {
  const process = await sandbox.exec({ argv: ["sh", "-c", unpackScript, "sh", checked(folder)] });
  const errors = collect(process.stderr, maxErrorBytes);
  process.stdout.resume();
  let failed: unknown;
  try {
    await pipeline(tar, process.stdin, options);
  } catch (error) {
    // tar may end before it has read everything (padding after the last file, or a failure): its exit code says which.
    if (!["EPIPE", "ERR_STREAM_PREMATURE_CLOSE"].includes((error as NodeJS.ErrnoException).code ?? "")) {
      failed = error;
      process.kill();
    }
  }
  const code = exitCode(await process.exit);
  if (failed) throw failed;
  if (code !== 0) throw failure("unpacked into", folder, code, (await errors).kept);
}

/**
 * Packs a folder of the sandbox as a tar stream, names relative to it (`./…`). `excludes` are tar patterns such as `.git` or `node_modules`.
 * The stream fails with InvalidParameter at its end when not everything could be packed; ending it early ends tar.
 */
export async function archiveOut(
  sandbox: Pick<Sandbox, "exec">,
  folder: string,
  options: { excludes?: string[]; signal?: AbortSignal } = {},
): Promise<Readable> {
  const { excludes = [], signal } = options;
  const patterns = excludes.map((pattern) => `--exclude=${pattern}`);
  const process = await sandbox.exec({ argv: ["sh", "-c", packScript, "sh", checked(folder), ...patterns] });
  process.stdin.end();
  const errors = collect(process.stderr, maxErrorBytes);
  async function* read(): AsyncGenerator<Buffer> {
    try {
      yield* process.stdout;
      const code = exitCode(await process.exit);
      // 1: a file changed while it was read, which is normal for a folder in use.
      if (code > 1) throw failure("packed from", folder, code, (await errors).kept);
    } finally {
      process.kill();
    }
  }
  const stream = Readable.from(read(), { objectMode: false });
  if (signal) {
    const abort = () => stream.destroy(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    stream.once("close", () => signal.removeEventListener("abort", abort));
  }
  return stream;
}

function failure(what: string, folder: string, code: number, stderr: Buffer): PlatformError {
  return new PlatformError("InvalidParameter", `The archive could not be ${what} ${folder}: ${reason({ code, stderr })}.`);
}
