import { describe, expect, test } from "vitest";
import { reply } from "../../test/support/model-server.ts";
import { ask, modelServers, wires } from "../../test/support/wires.ts";
import type { ModelMessage } from "../model.ts";

const servers = modelServers();
const call = "<function=terminal>\n<parameter=command>\nls\n</parameter>\n";

describe.each(wires)("tools in text over $title", (under) => {
  test("are described in the prompt and parsed from the answer, which is shown without them", async () => {
    const deltas: string[] = [];
    const model = await servers.open(
      under,
      [reply.text(`I look <around>.\n\n${call}</function>`, { deltaSize: 3 })],
      {
        options: { nativeTools: false },
      },
    );
    const response = await model.complete(ask({ onDelta: ({ content }) => deltas.push(content ?? "") }));
    expect(deltas.join("").trim()).toBe("I look <around>.");
    expect(response).toMatchObject({ text: "I look <around>.", finishReason: "tool-calls" });
    expect(response.toolCalls).toMatchObject([{ name: "terminal", arguments: '{"command":"ls"}' }]);
    const [request] = servers.requests;
    expect(request!.tools).toEqual([]);
    expect(request!.system).toContain("## terminal\nRuns a command.");
    expect(request!.system).toContain("command (required)");
  });

  test("calls and results of the history are text, too", async () => {
    const model = await servers.open(under, [reply.text("Done.")], { options: { nativeTools: false } });
    const messages: ModelMessage[] = [
      ...ask().messages,
      {
        role: "assistant",
        text: "I look.",
        thinkingBlocks: [],
        toolCalls: [
          { id: "a", name: "terminal", arguments: '{"command":"ls","timeout":3}', origin: "completion" },
        ],
      },
      {
        role: "tool",
        toolCallId: "a",
        toolName: "terminal",
        content: [{ type: "text", text: "README" }],
        isError: true,
      },
    ];
    expect(await model.complete(ask({ messages }))).toMatchObject({
      text: "Done.",
      toolCalls: [],
      finishReason: "stop",
    });
    expect(servers.requests[0]!.messages.map(({ role, text }) => [role, text])).toEqual([
      ["user", "Hello"],
      [
        "assistant",
        "I look.\n\n<function=terminal>\n<parameter=command>\nls\n</parameter>\n<parameter=timeout>\n3\n</parameter>\n</function>",
      ],
      ["user", "ERROR of terminal:\nREADME"],
    ]);
  });
});

test("the request contains a stop sequence after a call, unless that is switched off", async () => {
  const [chat] = wires;
  for (const [stopWord, stop] of [
    [undefined, ["</function>"]],
    [false, undefined],
  ] as const) {
    const options = { nativeTools: false, ...(stopWord === false && { stopWord }) };
    const model = await servers.open(chat!, [reply.text(call)], { options });
    expect((await model.complete(ask())).toolCalls).toHaveLength(1);
    expect(servers.requests[0]!.body.stop).toEqual(stop);
  }
});

test("an unreadable call is reported to the model", async () => {
  const [chat] = wires;
  const model = await servers.open(chat!, [reply.text("<function=terminal>\nls\n</function>")], {
    options: { nativeTools: false },
  });
  const { problem, toolCalls } = await model.complete(ask());
  expect(problem).toContain("a tool call that cannot be read");
  expect(toolCalls).toEqual([]);
});
