/** Quantiles of one series. */
export interface Figures {
  p50: number;
  p95: number;
  p99: number;
  samples: number;
}

/** One line of the table: a figure, its floor measured in the same run, and the target. */
export interface Row {
  name: string;
  unit: "ms" | "s" | "MB" | "KB" | "requests/s" | "per s" | "x" | "count";
  figures: Figures;
  floor?: { name: string; figures: Figures };
  target: string;
  met: boolean;
}

export function figures(samples: readonly number[]): Figures {
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (quantile: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * quantile))] ?? Number.NaN;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), samples: sorted.length };
}

/** A figure that is measured once. */
export function single(value: number): Figures {
  return figures([value]);
}

/** Warms up, then runs `once` `count` times; returns durations in ms, or what `once` measured. */
export async function sample(
  count: number,
  once: (index: number) => Promise<unknown>,
  warmUp = 3,
): Promise<number[]> {
  const durations: number[] = [];
  for (let index = -warmUp; index < count; index++) {
    const start = performance.now();
    const own = await once(index);
    if (index >= 0) durations.push(typeof own === "number" ? own : performance.now() - start);
  }
  return durations;
}

/**
 * Alternates several works, so that load on the machine affects all; returns each one's durations
 * in ms as `sample` does. Short works alternate in blocks, so that caches stay warm.
 */
export async function inTurn(
  count: number,
  works: readonly ((index: number) => Promise<unknown>)[],
  { warmUp = 3, block = 1 } = {},
): Promise<number[][]> {
  const series = works.map((): number[] => []);
  for (let first = -warmUp; first < count; first += block) {
    for (const [which, work] of works.entries()) {
      const durations = await sample(block, (index) => work(first + index), 0);
      series[which]!.push(...durations.filter((_, index) => first + index >= 0));
    }
  }
  return series;
}

const format = (value: number) =>
  value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(2);

/** The rows as a text table. */
export function table(rows: readonly Row[]): string {
  const head = [
    "measurement",
    "p50",
    "p95",
    "p99",
    "unit",
    "floor",
    "floor p50",
    "p50 / floor",
    "target",
    "",
  ];
  const body = rows.map(({ name, figures: { p50, p95, p99 }, unit, floor, target, met }) => [
    name,
    ...[p50, p95, p99].map(format),
    unit,
    floor?.name ?? "-",
    floor ? format(floor.figures.p50) : "-",
    floor ? (p50 / floor.figures.p50).toFixed(2) : "-",
    target,
    met ? "met" : "MISSED",
  ]);
  const lines = [head, ...body];
  const widths = head.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
