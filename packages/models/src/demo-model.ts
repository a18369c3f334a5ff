import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { contentText, emptyUsage } from "@sandpiper/wire";
import type { Model, ModelMessage, ModelRequest, ModelResponse } from "./model.ts";

/** The demo's next step: a text and, except at the end, one tool call. */
interface Step {
  say: string;
  tool?: string;
  args?: Record<string, unknown>;
}

type ToolResult = { tool: string; text: string; isError: boolean };

const neededTools = ["terminal", "file_editor", "finish"];
const introduction =
  "I am Sandpiper's built-in demo, not a language model: a script that repairs the one bug of the demo project.";
const advice = "Configure a real model (llm_model and llm_api_key in the settings) for other tasks.";

const testCommand = "sh test.sh";
const runTests = { tool: "terminal", args: { command: testCommand, timeout: 60 } };
const brokenFile = "lib/duration.sh";
const brokenLine = "    total=$((total + number / size))";
const repairedLine = "    total=$((total + number * size))";
const lookCommand = "pwd; find . -type f -not -path '*/.*' | sort | head -n 100";

/**
 * The built-in model `demo/repair`: a script over the demo project, not an LLM.
 * It keeps no state: each step follows from the messages of the request.
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
        ? { say: `${introduction} I need the tools ${missing.join(", ")}, which are not available.` }
        : getNextStep(getResultsOfTask(request.messages), tools);
    for (const piece of step.say.match(/.{1,40}(\s|$)|\S+/g) ?? []) {
      request.onDelta?.({ content: piece });
      await yieldToEventLoop();
      request.signal.throwIfAborted();
    }
    return this.#respond(request, step);
  }

  #respond(request: ModelRequest, { say, tool, args }: Step): ModelResponse {
    const id = `demo-${crypto.randomUUID()}`;
    const call = tool ? JSON.stringify({ ...getRisk(request, tool, args), ...args }) : "";
    const prompt = estimateTokens(request.system.join("") + JSON.stringify(request.messages));
    const completion = estimateTokens(say + call);
    return {
      id,
      text: say,
      thinkingBlocks: [],
      toolCalls: tool
        ? [{ id: `call_${crypto.randomUUID()}`, name: tool, arguments: call, origin: "completion" }]
        : [],
      usage: {
        ...emptyUsage(this.name),
        prompt_tokens: prompt,
        completion_tokens: completion,
        context_window: this.contextWindow,
        per_turn_token: prompt + completion,
        response_id: id,
      },
      cost: 0,
      finishReason: tool ? "tool-calls" : "stop",
    };
  }
}

/** The results since the newest task: a user message after the end of a run begins a task. */
function getResultsOfTask(messages: readonly ModelMessage[]): ToolResult[] {
  let results: ToolResult[] = [];
  let isOver = true;
  for (const message of messages) {
    if (message.role === "user") {
      if (isOver) results = [];
      isOver = false;
    } else if (message.role === "assistant") {
      if (message.toolCalls.length === 0) isOver = true;
    } else {
      const { toolName: tool, isError } = message;
      if (tool === "finish" && !isError) isOver = true;
      results.push({ tool, text: contentText(message.content), isError });
    }
  }
  return results;
}

/**
 * Follows the script: look, test, think, read, edit, test, finish. A step whose result is an error
 * (an interrupted call, for example) runs once more; after a second error the demo ends.
 */
function getNextStep(results: readonly ToolResult[], tools: ReadonlySet<string>): Step {
  const done = results.filter((result) => !result.isError);
  const [last, beforeLast] = results.toReversed();
  if (last?.isError && beforeLast?.isError)
    return finish(`I stop because a tool failed twice. The last answer was: ${last.text}`);
  const [look, firstTest, secondTest] = done.filter((result) => result.tool === "terminal");
  const edits = done.filter((result) => result.tool === "file_editor").length;
  if (!look)
    return { say: `${introduction} First I look around.`, tool: "terminal", args: { command: lookCommand } };
  const lines = look.text.split("\n").map((line) => line.trim());
  const root = lines.find((line) => line.startsWith("/")) ?? "";
  const files = lines.filter((line) => line.startsWith("./")).map((line) => line.slice(2));
  if (!files.includes("test.sh") || !files.includes(brokenFile)) {
    const names = files.slice(0, 8).join(", ") + (files.length > 8 ? ", …" : "");
    const seen = files.length === 0 ? "no files" : `${files.length} files (${names})`;
    return finish(
      `I am a demo, not a language model, and can only repair the demo project. In ${root || "the working folder"} I saw ${seen}. I changed nothing. ${advice}`,
    );
  }
  if (!firstTest) return { ...runTests, say: `I run the tests with \`${testCommand}\`.` };
  if (parseExitCode(firstTest.text) === 0)
    return finish(
      `\`${testCommand}\` passes already, so I changed nothing. I am a demo, not a language model. ${advice}`,
    );
  if (tools.has("think") && !done.some((result) => result.tool === "think")) {
    const failure = /^FAIL (.+)$/m.exec(firstTest.text)?.[1] ?? "no single case";
    const thought = `\`${testCommand}\` fails: ${failure}. Durations are computed in ${brokenFile}, so I read it.`;
    return { say: "The tests fail. I think about why.", tool: "think", args: { thought } };
  }
  const path = `${root.replace(/\/$/, "")}/${brokenFile}`;
  if (edits === 0)
    return { say: `I read ${brokenFile}.`, tool: "file_editor", args: { command: "view", path } };
  if (edits === 1)
    return {
      say: "A duration is its number times the size of its unit, but the code divides. I replace / by *.",
      tool: "file_editor",
      args: { command: "str_replace", path, old_str: brokenLine, new_str: repairedLine },
    };
  if (!secondTest) return { ...runTests, say: "Does that help?" };
  if (parseExitCode(secondTest.text) === 0)
    return finish(
      `\`${testCommand}\` passes now. What I changed: in ${brokenFile} \`${brokenLine.trim()}\` became \`${repairedLine.trim()}\`.`,
    );
  const tail = secondTest.text.trim().split("\n").slice(-12).join("\n");
  return finish(
    `I give up: \`${testCommand}\` still fails after the one repair that I know. ${advice} The end of the output:\n${tail}`,
  );
}

const finish = (message: string): Step => ({ say: "", tool: "finish", args: { message } });

/** The code in the terminal's brackets below the output; undefined while the command runs. */
function parseExitCode(text: string): number | undefined {
  const code = [...text.matchAll(/^\[[^\n]*?exit code[:\s]+(-?\d+)/gim)].at(-1)?.[1];
  return code === undefined ? undefined : Number(code);
}

/** The risk argument of a tool that takes one. Edits and test runs stay inside the sandbox. */
function getRisk(request: ModelRequest, name: string, args: Step["args"]): { security_risk?: string } {
  const tool = request.tools.find((each) => each.name === name);
  if (!Object.hasOwn(tool?.parameters.properties ?? {}, "security_risk")) return {};
  return { security_risk: args?.command === "view" ? "LOW" : "MEDIUM" };
}

/** A rough count: four characters each. */
const estimateTokens = (text: string) => Math.ceil(text.length / 4);
