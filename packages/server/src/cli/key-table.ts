import type { ApiKeys } from "../users/api.ts";

/** Formats keys as a table. */
export function keyTable(keys: ReturnType<ApiKeys["list"]>): string {
  const rows = keys.map(({ id, userId, name, createdAt, expiresAt, lastUsedAt, readOnly }) => [
    id,
    userId,
    time(createdAt),
    expiresAt === null ? "never" : time(expiresAt),
    lastUsedAt === null ? "never" : time(lastUsedAt),
    readOnly ? "read-only" : "full",
    // The name is last because it may contain spaces.
    printable(name),
  ]);
  const all = [["ID", "USER", "CREATED", "EXPIRES", "LAST USED", "RIGHTS", "NAME"], ...rows];
  const widths = all[0]!.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  return all
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column]!))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

function time(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16)}Z`;
}

/** Replaces control characters in a name. */
function printable(name: string): string {
  return name.replaceAll(/[\p{Cc}\p{Cf}]/gu, "?");
}
