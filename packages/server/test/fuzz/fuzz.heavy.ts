import { expect, test } from "vitest";
import { fuzz } from "./fuzz.ts";

test("20,000 requests made of the OpenAPI document are answered as it says, and leave and show nothing that they should not", async () => {
  const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31));
  const { problems, statuses, neverSucceeded, grownBytes } = await fuzz(20_000, seed);
  console.log(`seed ${seed}, statuses ${JSON.stringify(statuses)}, never 2xx: ${neverSucceeded.join(", ") || "none"}`);
  expect(problems, `FUZZ_SEED=${seed}`).toEqual([]);
  expect(grownBytes).toBeLessThan(200 * 2 ** 20);
}, 900_000);
