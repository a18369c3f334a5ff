import { PlatformError } from "@sandpiper/core/errors";

/** The source of the address of a PostgreSQL database. The address contains a password. */
export type DatabaseSource = { from: "variable"; url: string } | { from: "file"; path: string };

/** Parses the address of a database; undefined for any other text. */
export function parseDatabaseUrl(text: string): string | undefined {
  if (!/^postgres(ql)?:\/\//.test(text) || !URL.canParse(text)) return undefined;
  return new URL(text).pathname.length > 1 ? text : undefined;
}

/**
 * Returns the source that the variables name; undefined: SQLite in the data folder. Throws
 * ConfigInvalid when both variables are set, because one of them would silently have no effect.
 */
export function chooseDatabaseSource(given: {
  url: string | undefined;
  file: string | undefined;
}): DatabaseSource | undefined {
  if (given.url !== undefined && given.file !== undefined) throw new PlatformError("DatabaseSourcesConflict");
  if (given.file !== undefined) return { from: "file", path: given.file };
  return given.url === undefined ? undefined : { from: "variable", url: given.url };
}
