import { inertLine } from "./inert.ts";
import { columnsOf, padTo } from "./lines.ts";

/** Rows of untrusted texts as lines with aligned columns; the last column may have any width. */
export function formatTable(cells: readonly (readonly string[])[]): string {
  const rows = cells.map((row) => row.map(inertLine));
  const widths: number[] = [];
  for (const row of rows)
    for (const [column, cell] of row.entries())
      widths[column] = Math.max(widths[column] ?? 0, columnsOf(cell));
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, column) => padTo(cell, widths[column]!))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

/** A time as `2026-11-23 13:22`, in the zone of this machine. */
export function formatTime(iso: string): string {
  const time = new Date(iso);
  const two = (value: number) => String(value).padStart(2, "0");
  const date = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return `${date} ${two(time.getHours())}:${two(time.getMinutes())}`;
}
