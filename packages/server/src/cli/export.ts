import { createWriteStream } from "node:fs";
import { chown, rename, rm, stat } from "node:fs/promises";
import { Transform, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describeFileFailure } from "@sandpiper/core/describe-file-failure";
import { connect } from "./connect.ts";
import { findConversation } from "./conversations.ts";
import { CliError, exitCodes } from "./errors.ts";
import { inertLine } from "./inert.ts";
import { getInvoker } from "./invoker.ts";

/** Prefix of the last line of a complete recording. */
const endOfRecording = '{"line":"end"';

/**
 * `sandpiper export`: writes a recording to a file or to standard output. Throws CliError; an
 * incomplete file is removed.
 */
export async function exportRecording(conversation: string, { output }: { output?: string }): Promise<void> {
  const connection = await connect();
  try {
    if (output && (await stat(output).catch(() => undefined))?.isDirectory())
      throw new CliError(`${output} is a folder: name a file with --output.`, { exitCode: exitCodes.usage });
    const { id } = await findConversation(connection.client, conversation);
    const recording = await connection.client.recording(id);
    const end = new LastLine();
    // An earlier export stays until this one is complete. Devices and pipes are written directly.
    const isDevice = output && (await exists(output)) && !(await isFile(output));
    const file = output && !isDevice ? `${output}.${process.pid}.part` : output;
    try {
      if (file) await pipeline(recording, end, createWriteStream(file, { mode: 0o600 }));
      else await pipeline(recording, end, process.stdout as Writable, { end: false });
      if (!end.line.startsWith(endOfRecording))
        throw new CliError("The recording is incomplete: the conversation was deleted during the export.");
      if (file && output && file !== output) await rename(file, output);
    } catch (error) {
      if (file && file !== output) await rm(file, { force: true });
      if (error instanceof CliError) throw error;
      throw new CliError(`The recording could not be written: ${describeFileFailure(error)}.`, {
        cause: error,
      });
    }
    // With sudo, the file belongs to the user.
    const user = getInvoker();
    if (output && user && (await isFile(output))) await chown(output, user.uid, user.gid);
    if (output)
      process.stderr.write(
        `Written to ${inertLine(output)}. It contains the whole conversation; secrets that the server knows are masked.\n`,
      );
  } finally {
    await connection.close();
  }
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

/** Whether the path is a regular file. */
async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() === true;
}

/** Passes data through and keeps the last line. */
class LastLine extends Transform {
  #tail = "";

  get line(): string {
    return this.#tail.trimEnd().split("\n").at(-1)!;
  }

  override _transform(
    chunk: Buffer,
    _encoding: BufferEncoding,
    done: (error?: Error | null, data?: unknown) => void,
  ): void {
    this.#tail = (this.#tail + chunk.toString("latin1")).slice(-200);
    done(null, chunk);
  }
}
