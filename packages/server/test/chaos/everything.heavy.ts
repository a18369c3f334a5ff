import { expect, test } from "vitest";
import { everything } from "./everything/rounds.ts";

const seed = Number(process.env.CHAOS_SEED ?? Date.now() % 1_000_000);
const tell = (text: string) => void process.stdout.write(`${text}\n`);

test(`kill -9 at random moments and other faults under twenty conversations of everything: each ends as it should (CHAOS_SEED=${seed})`, async () => {
  tell(`CHAOS_SEED=${seed}`);
  expect(await everything({ seed, kills: 8, faults: true, tell })).toEqual([]);
}, 1_800_000);
