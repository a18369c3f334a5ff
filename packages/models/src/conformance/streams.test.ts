import { describe, expect, test } from "vitest";
import { reply } from "../../test/support/model-server.ts";
import { ask, failure, modelServers, type WireUnderTest, wires } from "../../test/support/wires.ts";
import { maxAnswerChars } from "../answer-bound.ts";
import { maxAnswerBytes } from "../guarded-fetch.ts";

const servers = modelServers();

const sentence = "This sentence has an end.";
const stream = ({ wire }: WireUnderTest) => ({
  "content-type": wire === "bedrock" ? "application/vnd.amazon.eventstream" : "text/event-stream",
});

/** Position of an event in the middle of the text: responses begin with more events than others. */
const middle = ({ wire }: WireUnderTest) => (wire === "responses" ? 5 : 3);

describe.each(wires)("$title", (under) => {
  test("a stream that breaks after text was shown fails without a second attempt", async () => {
    const model = await servers.open(under, () => reply.text(sentence, { cutAfter: middle(under) }));
    const deltas: string[] = [];
    const error = await failure(
      model.complete(ask({ onDelta: ({ content }) => deltas.push(content ?? "") })),
    );
    expect(error.code).toBe("ModelFailed");
    expect(deltas.join("")).not.toBe("");
    expect(servers.requests).toHaveLength(1);
  });

  test("a stream that ends properly but too early is not an answer", async () => {
    const model = await servers.open(under, () => reply.text(sentence, { endAfter: middle(under) }));
    const error = await failure(model.complete(ask({ onDelta: () => {} })));
    expect(error.code).toBe("ModelFailed");
    expect(servers.requests).toHaveLength(1);
  });

  test.each(["cutAfter", "endAfter"])(
    "a truncated tool call is requested again and never run: %s",
    async (cut) => {
      const calls = [
        { name: "terminal", arguments: { command: "rm -rf /tmp/build and everything else that is long" } },
      ];
      const after = under.wire === "google" || under.dialect === "ollama" ? 1 : 5;
      const model = await servers.open(under, ({ index }) =>
        index === 0 ? reply.toolCalls(calls, { [cut]: after }) : reply.toolCalls(calls, { id: "second" }),
      );
      const response = await model.complete(ask());
      expect(response).toMatchObject({ id: "second", toolCalls: [{ name: "terminal" }] });
      expect(JSON.parse(response.toolCalls[0]!.arguments)).toEqual(calls[0]!.arguments);
      expect(servers.requests).toHaveLength(2);
    },
  );

  test("an answer beyond the maximum length is cut: its text and the beginning of a call's arguments are kept", async () => {
    const long = "x".repeat(maxAnswerChars + 100_000);
    const calls = [
      { name: "think", arguments: { thought: "short" } },
      { name: "terminal", arguments: { command: long } },
    ];
    const model = await servers.open(under, ({ index }) =>
      index === 0 ? reply.text(long, { deltaSize: 90_000 }) : reply.toolCalls(calls, { deltaSize: 90_000 }),
    );
    let shown = 0;
    const answer = await model.complete(ask({ onDelta: ({ content }) => (shown += content?.length ?? 0) }));
    expect(answer).toMatchObject({ finishReason: "length", toolCalls: [] });
    expect([answer.text.length, shown]).toEqual([maxAnswerChars, maxAnswerChars]);
    const called = await model.complete(ask());
    expect(called).toMatchObject({
      finishReason: "length",
      toolCalls: [{ name: "think" }, { name: "terminal" }],
    });
    expect(called.toolCalls[1]!.arguments.length).toBeLessThan(100_000);
    expect(called.toolCalls[1]!.arguments).toMatch(/^\{"command":"xxx/);
    expect(called.usage.completion_tokens).toBeGreaterThan(0);
  });

  test("a connection that is closed without an answer is retried", async () => {
    const model = await servers.open(under, [reply.disconnect(), reply.text("Here.")]);
    expect((await model.complete(ask())).text).toBe("Here.");
  });

  test("a stream that goes silent in the middle times out", async () => {
    const model = await servers.open(under, () => reply.text(sentence, { stallAfter: middle(under) }), {
      times: { idle: 60 },
    });
    const error = await failure(model.complete(ask({ onDelta: () => {} })));
    expect(error.message).toContain("sent nothing for 0.06 s");
    expect(await servers.requests[0]!.finished).toBe(false);
  });

  test("an endpoint that never answers times out and is retried", async () => {
    const script = ({ index }: { index: number }) => (index === 0 ? reply.hang() : reply.text("At last."));
    // A busy machine may need longer for an answer than an attempt has.
    const times = { attempt: 80, retryDelays: Array(400).fill(1) };
    const model = await servers.open(under, script, { times });
    expect((await model.complete(ask())).text).toBe("At last.");
    expect(await servers.requests[0]!.finished).toBe(false);
  });

  test("an abort in the middle closes the connection at once and throws the signal's reason", async () => {
    const model = await servers.open(under, () => reply.text(sentence, { stallAfter: middle(under) }));
    const controller = new AbortController();
    const reason = new Error("interrupted by the user");
    const call = model.complete(ask({ signal: controller.signal, onDelta: () => controller.abort(reason) }));
    await expect(call).rejects.toBe(reason);
    expect(await servers.requests[0]!.finished).toBe(false);
    expect(servers.requests).toHaveLength(1);
  });

  test("an abort ends the wait before another attempt", async () => {
    const controller = new AbortController();
    const model = await servers.open(under, () => reply.error(500), {
      times: { retryDelays: [60_000] },
      onRetry: () => controller.abort(new Error("stop")),
    });
    await expect(model.complete(ask({ signal: controller.signal }))).rejects.toThrow("stop");
  });

  test("an aborted signal sends nothing", async () => {
    const model = await servers.open(under, () => reply.text("?"));
    await expect(model.complete(ask({ signal: AbortSignal.abort(new Error("early")) }))).rejects.toThrow(
      "early",
    );
    expect(servers.requests).toHaveLength(0);
  });

  test("an error inside the stream is reported with the provider's message", async () => {
    const model = await servers.open(under, () =>
      reply.answer({ streamError: { message: "the engine caught fire" } }),
    );
    const error = await failure(model.complete(ask()));
    expect(error.message).toContain("the engine caught fire");
    expect(servers.requests).toHaveLength(5);
  });

  test.each(["Hm.", ""])(
    "an error inside the stream, after the text %j, closes the connection, whatever the endpoint does",
    async (text) => {
      const script = () => reply.text(text, { streamError: { message: "broken" }, stallAfter: 99 });
      const model = await servers.open(under, script, { times: { retryDelays: [] } });
      await failure(model.complete(ask({ onDelta: () => {} })));
      expect(await servers.requests[0]!.finished).toBe(false);
    },
  );

  test("garbage instead of an event is retried", async () => {
    const model = await servers.open(under, [reply.text("lost", { malformedAt: 0 }), reply.text("Found.")]);
    expect((await model.complete(ask())).text).toBe("Found.");
  });

  test.each([
    ["nothing", [], 5],
    ["noise", ["\0\xff\x01 ".repeat(1000)], 5],
    ["events of another kind", ['event: x\ndata: {"hello": "world"}\n\ndata: 17\n\ndata: null\n\n'], 5],
  ])("an endpoint that answers %s fails in a sentence", async (_, chunks, attempts) => {
    const model = await servers.open(under, () => reply.bytes(chunks, stream(under)));
    const error = await failure(model.complete(ask()));
    expect(error.code).toBe("ModelFailed");
    expect(error.message.length).toBeLessThan(1200);
    expect(servers.requests).toHaveLength(attempts);
  });

  test("a web page is reported as such, and a JSON error with its message", async () => {
    const html = { "content-type": "text/html; charset=utf-8" };
    const page = await servers.open(under, () => reply.bytes(["<html>Welcome to the router</html>"], html));
    expect((await failure(page.complete(ask()))).message).toContain("web page - check llm_base_url");
    expect(servers.requests).toHaveLength(1);
    const body = '{"error":{"message":"streaming is off here"}}';
    const json = await servers.open(under, () => reply.bytes([body], { "content-type": "application/json" }));
    expect((await failure(json.complete(ask()))).message).toContain("streaming is off here");
  });
});

describe.each(wires.slice(0, 5))("$title", (under) => {
  test("an endpoint that sends endlessly is cut off, and delays no other call", async () => {
    const chunk = Buffer.alloc(1024 * 1024, "x");
    let sent = 0;
    function* endless() {
      for (;;) {
        sent += chunk.length;
        yield chunk;
      }
    }
    const model = await servers.open(under, () => reply.bytes(endless(), stream(under)), {
      times: { retryDelays: [] },
    });
    let longest = 0;
    let last = performance.now();
    const watch = setInterval(() => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }, 5);
    const error = await failure(model.complete(ask()));
    clearInterval(watch);
    expect(error.message).toMatch(/longer than|cannot be read/);
    expect(sent).toBeLessThan(2 * maxAnswerBytes);
    expect(longest).toBeLessThan(5_000);
    expect(await servers.requests[0]!.finished).toBe(false);
  });

  test("an endpoint that sends tool calls endlessly is cut off", async () => {
    const calls = Array.from({ length: 2_100 }, () => ({ name: "terminal", arguments: {} }));
    const model = await servers.open(under, [reply.toolCalls(calls)], { times: { retryDelays: [] } });
    expect((await failure(model.complete(ask()))).message).toContain("more than 2000 tool calls");
  });
});
