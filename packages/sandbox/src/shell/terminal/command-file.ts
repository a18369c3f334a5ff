import { randomBytes } from "node:crypto";
import { writeFile } from "../../files/files.ts";
import type { Sandbox } from "../../sandbox.ts";

/** Limit of typed input, bytes: the length of a terminal's line. */
export const maxTypedBytes = 4_000;

/**
 * Writes a command that is too long for typing to a file in a folder of the sandbox. Returns the
 * path; undefined for a shorter command. Throws what `writeFile` throws.
 */
export async function writeLongCommand(
  sandbox: Sandbox,
  folder: string,
  command: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (Buffer.byteLength(command) <= maxTypedBytes) return undefined;
  const path = `${folder}/command_${randomBytes(4).toString("hex")}.sh`;
  await writeFile(sandbox, path, command, { signal });
  return path;
}
