import { expect, test } from "vitest";
import { agentKillRounds } from "./agent-kill.ts";

test("kill -9 under clients of sandboxes: what was announced is there, and nothing half", async () => {
  const rounds = Number(process.env.CHAOS_ROUNDS ?? 10);
  const wrong = await agentKillRounds(
    rounds,
    () => 500 + Math.random() * 6_000,
    (text) => process.stdout.write(`${text}\n`),
  );
  expect(wrong).toEqual([]);
}, 900_000);
