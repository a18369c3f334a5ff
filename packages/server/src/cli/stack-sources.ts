import { readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Makes stacks name the sources where the program runs from a bundle. The maps are read when the
 * first stack is printed: Node's own option reads all of them at the start, for 0.25 s and 100 MB.
 */
export function nameSourcesInStacks(): void {
  const folder = dirname(fileURLToPath(import.meta.url));
  const maps = new Map<string, SourceMap | undefined>();
  const mapOf = (file: string) => {
    if (!maps.has(file)) maps.set(file, file.startsWith(folder) ? readMap(`${file}.map`) : undefined);
    return maps.get(file);
  };
  Error.prepareStackTrace = (error, frames) => {
    const lines = frames.map((frame) => `    at ${mapFrame(frame, mapOf)}`);
    return [describe(error), ...lines].join("\n");
  };
}

function readMap(file: string): SourceMap | undefined {
  try {
    return new SourceMap(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    return undefined;
  }
}

function mapFrame(frame: NodeJS.CallSite, mapOf: (file: string) => SourceMap | undefined): string {
  const text = String(frame);
  const url = frame.getFileName();
  const [line, column] = [frame.getLineNumber(), frame.getColumnNumber()];
  if (!url?.startsWith("file:") || !line || !column) return text;
  const file = fileURLToPath(url);
  const found = mapOf(file)?.findOrigin(line, column);
  if (!found || !("fileName" in found)) return text;
  const source = join(dirname(file), found.fileName);
  return text.replace(`${url}:${line}:${column}`, `${source}:${found.lineNumber}:${found.columnNumber}`);
}

/** The first line of a stack: name and message. */
function describe(error: Error): string {
  try {
    return Error.prototype.toString.call(error);
  } catch {
    return "Error";
  }
}
