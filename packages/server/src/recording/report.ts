import type { Divergence } from "./comparison.ts";
import type { ReplayReport } from "./replay.ts";

/** Maximum number of divergences in the text. */
const maxListed = 40;

/** The report as text. */
export function formatReport(report: ReplayReport): string {
  const { divergences, calls, not_run, stopped } = report;
  const counts = calls
    .map(({ usage_id, recorded, replayed }) => `${replayed} of ${recorded} ${usage_id} calls`)
    .join(", ");
  const notRun = Object.entries(not_run).map(([name, count]) =>
    count === 1 ? name : `${name} (${count} times)`,
  );
  const lines = [
    `Replayed conversation ${report.conversation}, recorded by version ${report.recorded_by}, with version ${report.replayed_by} in a sandbox of ${report.spec}: ${counts}.`,
    ...(notRun.length > 0
      ? [`Not run again because they reach outside of the sandbox: ${notRun.join(", ")}.`]
      : []),
    ...(stopped ? [`The rest was skipped: ${stopped}.`] : []),
    divergences.length === 0
      ? "Nothing differs."
      : divergences.length === 1
        ? "One thing differs:"
        : `${divergences.length} things differ:`,
    ...divergences
      .slice(0, maxListed)
      .flatMap((divergence, index) => formatDivergence(divergence, index + 1)),
    ...(divergences.length > maxListed ? [`… and ${divergences.length - maxListed} more.`] : []),
  ];
  return `${lines.join("\n")}\n`;
}

function formatDivergence({ kind, at, what, recorded, replayed }: Divergence, number: number): string[] {
  const side = (name: string, text: string | undefined) =>
    text === undefined ? [] : [`   ${name}: ${JSON.stringify(text)}`];
  return [`${number}. ${at}: ${kind}, ${what}`, ...side("recorded", recorded), ...side("now     ", replayed)];
}
