import { PlatformError } from "@sandpiper/core/errors";

/** Where the address of a PostgreSQL database comes from; it has a password. */
export type DatabaseSource = { from: "variable"; url: string } | { from: "file"; path: string };

/** Parses the address of a database. Undefined for any other text. */
export function parseDatabaseUrl(text: string): string | undefined {
  if (!/^postgres(ql)?:\/\//.test(text) || !URL.canParse(text)) return undefined;
  return new URL(text).pathname.length > 1 ? text : undefined;
}

/**
 * The source that the variables name; undefined: SQLite in the data folder. Throws ConfigInvalid
 * when both are set, because one of them would silently have no effect.
 */
export function chooseDatabaseSource(given: {
  url: string | undefined;
  file: string | undefined;
}): DatabaseSource | undefined {
  if (given.url !== undefined && given.file !== undefined) throw new PlatformError("DatabaseSourcesConflict");
  if (given.file !== undefined) return { from: "file", path: given.file };
  return given.url === undefined ? undefined : { from: "variable", url: given.url };
}
