import { expect, test } from "vitest";
import { killUnderFollowers } from "./kill-under-followers.ts";

test("after kill -9 with 100 followers, each reconnecting follower has every event exactly once", async () => {
  const { events, wrong } = await killUnderFollowers(100);
  expect(events).toBeGreaterThan(0);
  expect(wrong).toBe(0);
});
