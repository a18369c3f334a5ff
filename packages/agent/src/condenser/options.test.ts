import { invalid } from "@sandpiper/core/test/support/stub";
import { CondenserSettings } from "@sandpiper/wire";
import { Create } from "typebox/value";
import { expect, test } from "vitest";
import { condenserFromAgent, condenserFromSettings } from "./options.ts";

const settings = { ...Create(CondenserSettings), max_tokens: null } as CondenserSettings;

test("settings choose a condenser", () => {
  expect(condenserFromSettings(settings)).toEqual({
    ...{ maxSize: 240, maxTokens: null, keepFirst: 2, minimumProgress: 0.1 },
    ...{ resets: 5, scaling: 0.8 },
  });
  expect(condenserFromSettings({ ...settings, enabled: false })).toBeUndefined();
  expect(condenserFromSettings({ ...settings, condenser_kind: "no_op" })).toBeUndefined();
});

test("clients' agents select a condenser by its kind", () => {
  const one = { kind: "LLMSummarizingCondenser", max_size: 80, keep_first: 4, max_tokens: 5_000 };
  expect(condenserFromAgent(one)).toMatchObject({
    maxSize: 80,
    keepFirst: 4,
    maxTokens: 5_000,
    minimumProgress: 0.1,
  });
  expect(condenserFromAgent(null)).toBeUndefined();
  expect(condenserFromAgent({ kind: "NoOpCondenser" })).toBeUndefined();
  const pipeline = { kind: "PipelineCondenser", condensers: [{ kind: "NoOpCondenser" }, one] };
  expect(condenserFromAgent(pipeline)).toEqual(condenserFromAgent(one));
  expect(
    condenserFromAgent(invalid({ kind: "PipelineCondenser", condensers: [pipeline, 7, null] })),
  ).toBeUndefined();
  expect(condenserFromAgent(invalid({ kind: "RecentEventsCondenser", max_size: 50 }))).toMatchObject({
    maxSize: 50,
  });
});

test("invalid values become the defaults, and the beginning is less than half", () => {
  const odd = {
    kind: "LLMSummarizingCondenser",
    max_size: "many",
    keep_first: -1,
    max_tokens: 1e99,
    minimum_progress: 7,
  };
  expect(condenserFromAgent(invalid(odd))).toMatchObject({
    maxSize: 240,
    keepFirst: 2,
    maxTokens: null,
    minimumProgress: 0.1,
  });
  const small = { kind: "LLMSummarizingCondenser", max_size: 0, keep_first: 500 };
  expect(condenserFromAgent(invalid(small))).toMatchObject({ maxSize: 10, keepFirst: 3 });
});
