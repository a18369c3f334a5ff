import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RecordingUnusable, readRecording } from "./read.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sandpiper-test-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const header = {
  line: "recording",
  version: 1,
  platform: "0.1.0",
  conversation: { id: "a", sandbox_id: "b", created_at: "", config: {}, settings: {}, secrets: [] },
  needs: [],
};
const event = (seq: number) => ({
  line: "event",
  seq,
  listed: true,
  event: { id: String(seq), kind: "PauseEvent" },
});
const call = {
  ...{
    line: "call",
    usage_id: "agent",
    model: "m",
    at_seq: 0,
    stored_seq: 1,
    system: 0,
    tools: 0,
    messages: [[0, 1]],
  },
  ...{ exact: true, started_at: "", latency_ms: 1, failure: { code: "ModelFailed", message: "no" } },
};
const parts = [
  { line: "system", number: 0, blocks: ["s"] },
  { line: "tools", number: 0, tools: [] },
  { line: "message", number: 0, message: { role: "user", content: [{ type: "text", text: "hi" }] } },
];
const end = { line: "end", events: 1, calls: 1 };
const whole = [header, ...parts, call, event(1), end];

async function file(lines: readonly unknown[] | string): Promise<string> {
  const path = join(folder, "recording.jsonl");
  await writeFile(
    path,
    typeof lines === "string" ? lines : lines.map((line) => `${JSON.stringify(line)}\n`).join(""),
  );
  return path;
}

/** The sentence with which a file is refused. */
async function refusal(lines: readonly unknown[] | string): Promise<string> {
  const error = await readRecording(await file(lines)).catch((error: RecordingUnusable) => error);
  if (!(error instanceof Error)) throw new Error("It was read.");
  return error.message;
}

test("a complete recording is read; unknown lines and fields are skipped", async () => {
  const lines = [
    { ...header, later: 1 },
    ...parts,
    { line: "music", loud: true },
    { ...call, extra: {} },
    event(1),
    end,
  ];
  const recording = await readRecording(await file(lines));
  expect(recording.calls).toHaveLength(1);
  expect(recording.messages).toEqual([{ role: "user", content: [{ type: "text", text: "hi" }] }]);
});

test.each<[string, readonly unknown[] | string, string]>([
  ["an empty file", "", "It is empty."],
  ["another file", "PK\u0003\u0004 something", "It is not a recording: its first line is not JSON."],
  ["another JSON", [{ items: [] }], "It is not a recording: the first line is no header of one."],
  ["null", "null\n", "It is not a recording: the first line is no header of one."],
  ["a newer version", [{ ...header, version: 2 }, end], "version 2"],
  ["a header without a conversation", [{ line: "recording", version: 1 }], "Line 1 (recording) is wrong"],
  ["one without an end", whole.slice(0, -1), "It is cut off"],
  ["one that lost a line", whole.filter((line) => line !== whole[5]), "It is cut off"],
  [
    "a line that was cut",
    `${JSON.stringify(header)}\n{"line":"event","se`,
    "Line 2 is not JSON: the file was cut off or changed.",
  ],
  ["events out of order", [header, event(2), event(1)], "Line 3: the events are not in order."],
  [
    "a call of parts that are not there",
    [header, call],
    "Line 2: the call names parts of a prompt that are not there.",
  ],
  ["a call of too many messages", [header, ...parts, { ...call, messages: [[0, 9e15]] }], "Line 5"],
  [
    "a call without an outcome",
    [header, ...parts, { ...call, failure: undefined }],
    "Line 5: the call has neither an answer",
  ],
  [
    "a wrong number",
    [header, { ...parts[0], number: 5 }],
    "Line 2 (system) has the number 5 in the place of 0.",
  ],
  ["two headers", [header, header], "Line 2 is a second header."],
  ["something after the end", [...whole, event(2)], "comes after the end"],
])("%s is refused with a sentence", async (_what, lines, sentence) => {
  expect(await refusal(lines)).toContain(sentence);
});

test("a file of a gigabyte, one long line, a folder and no file are refused without being read", async () => {
  const path = await file(whole);
  await truncate(path, 2 ** 30);
  await expect(readRecording(path)).rejects.toThrow(
    "It is 1024 MB long; recordings up to 256 MB are replayed.",
  );
  await truncate(path, 100 * 2 ** 20);
  await expect(readRecording(path)).rejects.toThrow(/is too long|not JSON/);
  await expect(readRecording(folder)).rejects.toThrow("cannot be read");
  await expect(readRecording(join(folder, "missing"))).rejects.toThrow("cannot be read");
});
