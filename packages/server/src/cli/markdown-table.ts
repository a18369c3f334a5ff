import { columnsOf, padTo, wrap } from "./lines.ts";

/** Columns between two cells. */
const gap = 2;

/** Columns below which a cell cannot be read; then the cells of a row follow each other. */
const minCell = 6;

/**
 * Lays out a table in `width` columns, as lines for each row. A long cell is wrapped in its column;
 * with more columns than fit, the cells of a row follow each other.
 */
export function formatCells(rows: readonly (readonly string[])[], width: number): string[][] {
  const needs: number[] = [];
  for (const row of rows)
    for (const [column, cell] of row.entries())
      needs[column] = Math.max(needs[column] ?? 0, ...cell.split("\n").map(columnsOf));
  const room = width - gap * (needs.length - 1);
  if (room < needs.reduce((sum, need) => sum + Math.min(need, minCell), 0))
    return rows.map((row) =>
      wrap(row.slice(0, row.findLastIndex((cell) => cell !== "") + 1).join(" | "), width),
    );
  const widths = share(needs, room);
  return rows.map((row) => {
    const cells = row.map((cell, column) =>
      cell.split("\n").flatMap((line) => wrap(line, Math.max(widths[column] ?? 1, 1))),
    );
    const height = cells.reduce((most, lines) => Math.max(most, lines.length), 0);
    return Array.from({ length: height }, (_, at) =>
      cells
        .map((lines, column) => padTo(lines[at] ?? "", widths[column] ?? 0))
        .join(" ".repeat(gap))
        .trimEnd(),
    );
  });
}

/** Gives each column what it needs, as far as `room` suffices; large ones get equal shares. */
function share(needs: readonly number[], room: number): number[] {
  const widths = needs.map(() => 0);
  const bySize = [...needs.entries()].sort(([, a], [, b]) => a - b);
  let left = room;
  for (const [at, [column, need]] of bySize.entries()) {
    const fair = Math.floor(left / (bySize.length - at));
    widths[column] = Math.min(need, fair);
    left -= widths[column]!;
  }
  return widths;
}
