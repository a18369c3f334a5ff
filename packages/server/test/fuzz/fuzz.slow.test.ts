import { expect, test } from "vitest";
import { fuzz } from "./fuzz.ts";
import { RecordTarget } from "./record-target.ts";

/** The same requests in each run: `npm run test:heavy -- fuzz` takes others. */
const seed = Number(process.env.FUZZ_SEED ?? 20_261_123);

test("1,000 requests generated from the OpenAPI document get documented answers, leave nothing behind and leak nothing", async () => {
  const { problems } = await fuzz(1_000, seed, await RecordTarget.open());
  expect(problems, `FUZZ_SEED=${seed}`).toEqual([]);
});

test("1,000 requests generated from the agent-server document get documented answers, below a sandbox", async () => {
  const { problems } = await fuzz(1_000, seed, await RecordTarget.open({}, "/agent/sandbox-1"));
  expect(problems, `FUZZ_SEED=${seed}`).toEqual([]);
});
