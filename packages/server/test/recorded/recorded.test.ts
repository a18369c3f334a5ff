import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { replayFile } from "../../src/cli/replay.ts";
import { formatReport } from "../../src/recording/report.ts";

/**
 * Replays recorded runs with the current agent. After an intended change of the agent's requests,
 * record the runs again: see refresh.ts.
 */
const folder = fileURLToPath(new URL(".//", import.meta.url));
const recordings = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));

test.concurrent.each(recordings)("%s replays as it was recorded", async (name) => {
  const report = await replayFile(`${folder}${name}`, {});
  expect(
    report.divergences,
    `${formatReport(report)}\nWas that meant? Then record it anew: packages/server/test/recorded/refresh.ts`,
  ).toEqual([]);
});
