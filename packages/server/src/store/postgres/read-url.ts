import { readFile } from "node:fs/promises";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import { type DatabaseSource, parseDatabaseUrl } from "../../config/database-source.ts";

/**
 * Reads the address of the database, which contains its password. Throws ConfigInvalid when the
 * file has no address.
 */
export async function readDatabaseUrl(source: DatabaseSource): Promise<string> {
  if (source.from === "variable") return source.url;
  const { path } = source;
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw new PlatformError("DatabaseFileUnreadable", { path, reason: errorText(error) }, { cause: error });
  });
  const url = parseDatabaseUrl(text.trim());
  if (url === undefined) throw new PlatformError("DatabaseFileInvalid", { path });
  return url;
}

/** Returns the parts of an address that no log or answer may show. */
export function secretsOf(url: string): string[] {
  const { password, searchParams } = new URL(url);
  const texts = [url, decodeURIComponent(password), password, searchParams.get("password") ?? ""];
  return texts.filter((text) => text !== "");
}
