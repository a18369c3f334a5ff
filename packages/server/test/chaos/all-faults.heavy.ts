import { expect, test } from "vitest";
import { runAllFaults } from "./all-faults/rounds.ts";

const seed = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000);
const log = (text: string) => void process.stdout.write(`${text}\n`);

test(`kill -9 at random moments and other faults under twenty conversations: each ends correctly (CHAOS_SEED=${seed})`, async () => {
  log(`CHAOS_SEED=${seed}`);
  expect(await runAllFaults({ seed, kills: 8, faults: true, log })).toEqual([]);
}, 1_800_000);
