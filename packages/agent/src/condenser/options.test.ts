import { CondenserSettings } from "@sandpiper/wire";
import { Create } from "typebox/value";
import { expect, test } from "vitest";
import { condenserOfAgent, condenserOfSettings } from "./options.ts";

const settings = { ...Create(CondenserSettings), max_tokens: null } as CondenserSettings;

test("settings describe a condenser, or none", () => {
  expect(condenserOfSettings(settings)).toEqual({
    ...{ maxSize: 240, maxTokens: null, keepFirst: 2, minimumProgress: 0.1 },
    ...{ resets: 5, scaling: 0.8 },
  });
  expect(condenserOfSettings({ ...settings, enabled: false })).toBeUndefined();
  expect(condenserOfSettings({ ...settings, condenser_kind: "no_op" })).toBeUndefined();
});

test("agents of clients describe theirs by kinds", () => {
  const one = { kind: "LLMSummarizingCondenser", max_size: 80, keep_first: 4, max_tokens: 5_000 };
  expect(condenserOfAgent(one)).toMatchObject({
    maxSize: 80,
    keepFirst: 4,
    maxTokens: 5_000,
    minimumProgress: 0.1,
  });
  expect(condenserOfAgent(null)).toBeUndefined();
  expect(condenserOfAgent({ kind: "NoOpCondenser" })).toBeUndefined();
  const pipeline = { kind: "PipelineCondenser", condensers: [{ kind: "NoOpCondenser" }, one] };
  expect(condenserOfAgent(pipeline)).toEqual(condenserOfAgent(one));
  expect(
    condenserOfAgent({ kind: "PipelineCondenser", condensers: [pipeline, 7, null] } as never),
  ).toBeUndefined();
  expect(condenserOfAgent({ kind: "RecentEventsCondenser", max_size: 50 } as never)).toMatchObject({
    maxSize: 50,
  });
});

test("what makes no sense is taken as the default, and the beginning is less than half", () => {
  const odd = {
    kind: "LLMSummarizingCondenser",
    max_size: "many",
    keep_first: -1,
    max_tokens: 1e99,
    minimum_progress: 7,
  };
  expect(condenserOfAgent(odd as never)).toMatchObject({
    maxSize: 240,
    keepFirst: 2,
    maxTokens: null,
    minimumProgress: 0.1,
  });
  const small = { kind: "LLMSummarizingCondenser", max_size: 0, keep_first: 500 };
  expect(condenserOfAgent(small as never)).toMatchObject({ maxSize: 10, keepFirst: 3 });
});
