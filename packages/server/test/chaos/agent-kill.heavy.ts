import { expect, test } from "vitest";
import { agentKillRounds } from "./agent-kill.ts";

test("kill -9 under agent-server clients: everything announced exists, and nothing is half done", async () => {
  const rounds = Number(process.env.CHAOS_ROUNDS ?? 10);
  const wrong = await agentKillRounds(
    rounds,
    () => 500 + Math.random() * 6_000,
    (text) => process.stdout.write(`${text}\n`),
  );
  expect(wrong).toEqual([]);
}, 900_000);
