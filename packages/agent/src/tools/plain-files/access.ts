import { posix } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { readFile, writeFile } from "@sandpiper/sandbox/files/files";
import { type Content, textContent } from "@sandpiper/wire";
import { decodeText, encodeText, newFormat, type TextFile } from "../file-editor/text-file.ts";
import { UseError } from "../file-editor/use-error.ts";
import type { ToolContext } from "../tool.ts";

/** Maximum size of a file, bytes. */
const maxBytes = 10 * 1024 * 1024;

/** The absolute path of a file; a relative one begins in the working directory. Throws UseError. */
export function resolvePath(context: Pick<ToolContext, "workingDir">, path: string): string {
  if (path.includes("\0")) throw new UseError("A path holds no NUL character.");
  return posix.resolve(context.workingDir, path);
}

/** The key of a file for calls that run in sequence. */
export function fileKey(path: string, workingDir: string): string {
  return `file:${posix.resolve(workingDir, path)}`;
}

/** A text file; undefined when there is none. Throws UseError for other files and for folders. */
export async function readText(context: ToolContext, path: string): Promise<TextFile | undefined> {
  const found = await readFile(await context.sandbox(), path, { maxBytes, signal: context.signal });
  switch (found.kind) {
    case "file":
      return decodeText(path, found.content);
    case "missing":
      return undefined;
    case "directory":
      throw new UseError(`${path} is a directory, not a file.`);
    case "too_large":
      throw new UseError(`The file ${path} is larger than 10 MB.`);
    case "unreadable":
      throw new UseError(`The file ${path} cannot be read: ${found.reason}.`);
  }
}

/** Writes a text in the format of the file that it replaces. Throws UseError. */
export async function writeText(
  context: ToolContext,
  path: string,
  text: string,
  before: TextFile | undefined,
): Promise<void> {
  const content = encodeText(path, { text, format: before?.format ?? newFormat });
  if (content.length > maxBytes) throw new UseError(`The file ${path} would be larger than 10 MB.`);
  await writeFile(await context.sandbox(), path, content, { signal: context.signal });
}

/** The result of a call, or of its error of use. Failures of the sandbox throw. */
export async function resultOf<Result extends object, Failure extends object>(
  run: () => Promise<Result & { content: Content[] }>,
  failure: () => Failure,
): Promise<((Result & { content: Content[] }) | (Failure & { content: Content[] })) & { is_error: boolean }> {
  try {
    return { ...(await run()), is_error: false };
  } catch (error) {
    const isMistake =
      error instanceof UseError || (error instanceof PlatformError && error.code === "InvalidParameter");
    if (!isMistake) throw error;
    return { ...failure(), content: [textContent(`Error: ${error.message}`)], is_error: true };
  }
}
