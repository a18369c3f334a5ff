import { setImmediate as breathe } from "node:timers/promises";
import { emptyUsage } from "@sandpiper/wire";
import type { Model, ModelRequest, ModelResponse } from "../model.ts";
import { decide, introduction, type Step } from "./decide.ts";
import { readHistory } from "./history.ts";

const neededTools = ["terminal", "file_editor", "finish"];

/**
 * The built-in model `demo/repair`. It is not an LLM: it repairs a failing test by generating small changes and keeping what the
 * test confirms. It holds nothing between calls; every step follows from the messages of the request.
 */
export class DemoModel implements Model {
  readonly name: string;
  readonly contextWindow = 200_000;

  constructor(name: string) {
    this.name = name;
  }

  async complete(request: ModelRequest): Promise<ModelResponse> {
    request.signal.throwIfAborted();
    const tools = new Set(request.tools.map((tool) => tool.name));
    const missing = neededTools.filter((name) => !tools.has(name));
    const step =
      missing.length > 0
        ? { say: `${introduction} I need the tools ${missing.join(", ")}, which I was not given.` }
        : decide(readHistory(request.messages), tools);
    for (const piece of step.say.match(/.{1,40}(\s|$)|\S+/g) ?? []) {
      request.onDelta?.({ content: piece });
      await breathe();
      request.signal.throwIfAborted();
    }
    return this.#response(request, step);
  }

  #response(request: ModelRequest, step: { say: string } | Step): ModelResponse {
    const id = `demo-${crypto.randomUUID()}`;
    const call = "tool" in step ? JSON.stringify({ ...risk(request, step), ...step.arguments }) : "";
    const prompt = tokens(request.system.join("") + JSON.stringify(request.messages));
    const completion = tokens(step.say + call);
    return {
      id,
      text: step.say,
      thinkingBlocks: [],
      toolCalls:
        "tool" in step ? [{ id: `call_${crypto.randomUUID()}`, name: step.tool, arguments: call, origin: "completion" }] : [],
      usage: {
        ...emptyUsage(this.name),
        prompt_tokens: prompt,
        completion_tokens: completion,
        context_window: this.contextWindow,
        per_turn_token: prompt + completion,
        response_id: id,
      },
      cost: 0,
      finishReason: "tool" in step ? "tool-calls" : "stop",
    };
  }
}

/** The tool's own wish to be told how risky a call is. Reading is not; edits and test runs stay inside the sandbox. */
function risk(request: ModelRequest, step: Step): { security_risk?: string } {
  const properties = request.tools.find((tool) => tool.name === step.tool)?.parameters.properties as object | undefined;
  if (!properties || !("security_risk" in properties)) return {};
  return { security_risk: step.arguments.command === "view" ? "LOW" : "MEDIUM" };
}

/** A rough count: four characters each. */
const tokens = (text: string) => Math.ceil(text.length / 4);
