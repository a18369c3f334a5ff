import { readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Makes stacks name the sources where the program runs from a bundle. The maps are read when the
 * first stack is printed: Node's own option reads all of them at the start, for 0.25 s and 100 MB.
 * `read` returns the map of a file of the bundle.
 */
export function nameSourcesInStacks(read: (file: string) => SourceMap | undefined = readMap): void {
  const folder = dirname(fileURLToPath(import.meta.url));
  const maps = new Map<string, SourceMap | undefined>();
  const mapOf = (file: string) => {
    if (!maps.has(file)) maps.set(file, file.startsWith(folder) ? read(`${file}.map`) : undefined);
    return maps.get(file);
  };
  // Streams read the stack of each error with which they end, thousands in a second under attack.
  const places = new Map<string, string>();
  const sourceOf = (place: string, url: string, line: number, column: number) => {
    const known = places.get(place) ?? findSource(url, line, column, mapOf) ?? place;
    places.set(place, known);
    return known;
  };
  Error.prepareStackTrace = (error, frames) => {
    if (isOfConnection(error))
      return [describe(error), ...frames.map((frame) => `    at ${frame}`)].join("\n");
    const lines = frames.map((frame) => `    at ${mapFrame(frame, sourceOf)}`);
    return [describe(error), ...lines].join("\n");
  };
}

const connectionCodes = /^(?:ABORT_ERR$|ERR_(?:STREAM|HTTP|SOCKET)_|HPE_|WS_ERR_|UND_ERR_)/;

/**
 * Whether an error says that a connection ended. Clients cause these, Node's streams read the stack
 * of each, nobody prints it, and to parse the first map takes up to 0.15 s, in which nobody is
 * answered.
 */
function isOfConnection(error: Error): boolean {
  const { code, syscall, path } = error as NodeJS.ErrnoException;
  return (
    (syscall !== undefined && path === undefined) || (typeof code === "string" && connectionCodes.test(code))
  );
}

function readMap(file: string): SourceMap | undefined {
  try {
    return new SourceMap(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    return undefined;
  }
}

/** Finds the place of a source, as text, for a place of the bundle. */
type SourceOf = (place: string, url: string, line: number, column: number) => string;

function mapFrame(frame: NodeJS.CallSite, sourceOf: SourceOf): string {
  const text = String(frame);
  const url = frame.getFileName();
  const [line, column] = [frame.getLineNumber(), frame.getColumnNumber()];
  if (!url?.startsWith("file:") || !line || !column) return text;
  const place = `${url}:${line}:${column}`;
  return text.replace(place, sourceOf(place, url, line, column));
}

function findSource(
  url: string,
  line: number,
  column: number,
  mapOf: (file: string) => SourceMap | undefined,
): string | undefined {
  const file = fileURLToPath(url);
  const found = mapOf(file)?.findOrigin(line, column);
  if (!found || !("fileName" in found)) return undefined;
  return `${join(dirname(file), found.fileName)}:${found.lineNumber}:${found.columnNumber}`;
}

/** The first line of a stack: name and message. */
function describe(error: Error): string {
  try {
    return Error.prototype.toString.call(error);
  } catch {
    return "Error";
  }
}
