import { expect, test } from "vitest";
import { killRounds } from "./kill.ts";

test("kill -9 at random moments: everything announced exists, and nothing is half done", async () => {
  const rounds = Number(process.env.CHAOS_ROUNDS ?? 10);
  const wrong = await killRounds(
    rounds,
    () => 300 + Math.random() * 4_000,
    (text) => process.stdout.write(`${text}\n`),
  );
  expect(wrong).toEqual([]);
}, 900_000);
