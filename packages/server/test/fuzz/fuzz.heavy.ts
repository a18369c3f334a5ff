import { expect, test } from "vitest";
import { type FuzzResult, fuzz } from "./fuzz.ts";
import { LiveTarget } from "./live-target.ts";
import { RecordTarget } from "./record-target.ts";

const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31));

/** Routes that always refuse, with the reason. */
const refusals: Record<string, string> = {
  "GET /api/conversations/{conversation_id}/remember-prompt": "left out of the V0 API: 410",
  "GET /api/conversations/{conversation_id}/workspace":
    "leads on to the same address with a slash at its end: 302",
  "GET /api/conversations/{conversation_id}/zip-directory": "left out of the V0 API: 410",
  "POST /api/conversations/{conversation_id}/load_plugin": "no sandbox here reaches a host of plugins",
  "POST /api/plugins/fetch": "no sandbox here reaches a host of plugins",
  "POST /api/conversations/{conversation_id}/submit-feedback": "left out of the V0 API: 410",
  "POST /api/conversations/{conversation_id}/switch_acp_model": "there are no ACP agents: 400",
  "POST /api/conversations/{conversation_id}/upload-files": "left out of the V0 API: 410",
  "POST /api/reset-settings": "left out of the V0 API: 410",
  "POST /api/v1/app-conversations/{conversation_id}/switch_acp_model": "there are no ACP agents: 400",
};

const all = new Set<string>();
const succeeded = new Set<string>();

function judge(result: FuzzResult): void {
  const { problems, statuses, neverSucceeded, grownBytes } = result;
  console.log(
    `seed ${seed}, statuses ${JSON.stringify(statuses)}, never 2xx: ${neverSucceeded.join(", ") || "none"}`,
  );
  for (const name of result.succeeded) succeeded.add(name);
  for (const name of [...result.succeeded, ...neverSucceeded]) all.add(name);
  expect(problems, `FUZZ_SEED=${seed}`).toEqual([]);
  expect(grownBytes).toBeLessThan(200 * 2 ** 20);
}

test("20,000 requests generated from the OpenAPI document get documented answers, leave nothing behind and leak nothing", async () => {
  judge(await fuzz(20_000, seed, await RecordTarget.open()));
}, 900_000);

test("20,000 requests generated from the agent-server document get documented answers, below a sandbox", async () => {
  judge(await fuzz(20_000, seed, await RecordTarget.open({}, "/agent/sandbox-1")));
}, 900_000);

test("5,000 requests to a platform with real sandboxes get documented answers, leave nothing behind and leak nothing", async () => {
  const count = Number(process.env.FUZZ_LIVE ?? 5_000);
  judge(await fuzz(count, seed, await LiveTarget.open(), true));
}, 900_000);

test("5,000 requests to a real sandbox's agent server get documented answers", async () => {
  const count = Number(process.env.FUZZ_LIVE ?? 5_000);
  judge(await fuzz(count, seed, await LiveTarget.open(true), true));
}, 900_000);

test("every route of both documents succeeds in one of these runs, except routes that always refuse", () => {
  expect([...all].filter((name) => !succeeded.has(name)).sort()).toEqual(Object.keys(refusals).sort());
});
