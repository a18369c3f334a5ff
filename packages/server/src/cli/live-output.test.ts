import type { Event } from "@sandpiper/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { LiveOutput } from "./live-output.ts";

const action = (id = "c") => ({ kind: "ActionEvent", tool_call_id: id }) as unknown as Event;
const result = (text: string, id = "c") =>
  ({
    ...{ kind: "ObservationEvent", tool_call_id: id },
    observation: { kind: "TerminalObservation", content: [{ type: "text", text }] },
  }) as unknown as Event;
const report = (output: string, output_end: number, key = "agent_state") => {
  const state = { tool_progress: { tool_call_id: "c", output, output_end } };
  const value = key === "full_state" ? { agent_state: state } : state;
  return { kind: "ConversationStateUpdateEvent", key, value } as unknown as Event;
};

/** Shows events at once; returns the printed lines and the text of the last result. */
async function show(events: readonly Event[]): Promise<{ lines: string[]; rest: string }> {
  const lines: string[] = [];
  const live = new LiveOutput({
    print: (...more) => lines.push(...more.map((line) => line.trim())),
    columns: () => 80,
    delayMs: 0,
  });
  let last: Event | undefined;
  for (const event of events) {
    last = live.take(event);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  const { observation } = last as unknown as { observation: { content: { text: string }[] } };
  return { lines, rest: observation.content[0]!.text };
}

test("lines are shown once while a command runs, and its result has the rest", async () => {
  const events = [action(), report("one\ntw", 6), report("o\n", 8), result("one\ntwo\nthree\n")];
  expect(await show(events)).toEqual({ lines: ["one", "two"], rest: "three\n" });
  expect(await show(events.with(3, result("one\ntwo\n")))).toMatchObject({ rest: "(its output is above)" });
});

test("a follower who comes late sees what was printed so far, then the rest", async () => {
  const events = [report("one\ntwo\n", 8, "full_state"), action(), report("three\n", 14)];
  const late = await show([...events, result("one\ntwo\nthree\nfour")]);
  expect(late).toEqual({ lines: ["one", "two", "three"], rest: "four" });
});

test("after a lost connection nothing is doubled or lost", async () => {
  const whole = Array.from({ length: 30 }, (_, index) => `line ${index}`).join("\n");
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(whole.length), { maxLength: 6 }), fc.boolean(), async (cuts, again) => {
      const ends = [...cuts].sort((a, b) => a - b);
      const reports = ends.map((end, index) => report(whole.slice(ends[index - 1] ?? 0, end), end));
      // A new connection begins with all that is known.
      if (again && ends.length > 1)
        reports.splice(1, 0, report(whole.slice(0, ends[1]), ends[1]!, "full_state"));
      const { lines, rest } = await show([action(), ...reports, result(whole)]);
      const seen = [...lines, ...(rest === "(its output is above)" ? [] : rest.split("\n"))];
      expect(seen).toEqual(whole.split("\n"));
    }),
    { numRuns: 40 },
  );
});

test("more output than a report has is said to be missing, and text cannot act on the terminal", async () => {
  const { lines } = await show([action(), report("a\n", 2), report("\x1b[2Jz\n", 900), result("z")]);
  expect(lines).toEqual(["a", "… earlier output is not shown …", "^[[2Jz"]);
});
