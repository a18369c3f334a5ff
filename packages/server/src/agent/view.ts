import type { ActionEvent, Content, Event, MessageEvent } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import type { ModelMessage } from "../models/model.ts";
import type { Tool } from "./tool.ts";

/**
 * What the model reads of a conversation, kept up to date event by event.
 * A batch of tool calls and its results stay together: a message that arrives while results are missing is read after them.
 */
export class View {
  readonly messages: ModelMessage[] = [];
  /** Blocks of the system message; empty until the log has a SystemPromptEvent. */
  system: string[] = [];
  readonly #tools: ReadonlyMap<string, Tool>;
  readonly #openCalls = new Set<string>();
  #waiting: ModelMessage[] = [];
  #batch: { responseId: string; message: Extract<ModelMessage, { role: "assistant" }> } | undefined;

  constructor(tools: readonly Tool[]) {
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
  }

  add(event: Event): void {
    switch (event.kind) {
      case "SystemPromptEvent":
        this.system = [event.system_prompt.text, ...(event.dynamic_context ? [event.dynamic_context.text] : [])];
        return;
      case "MessageEvent":
        return this.#push(readMessage(event));
      case "ActionEvent":
        return this.#addCall(event);
      case "ObservationEvent": {
        const tool = this.#tools.get(event.tool_name);
        const content = tool?.render?.(event.observation) ?? event.observation.content;
        return this.#addResult(event, content, event.observation.is_error);
      }
      case "AgentErrorEvent":
        return this.#addResult(event, [textContent(event.error)], true);
      case "UserRejectObservation":
        return this.#addResult(event, [textContent(`The action was not run: ${event.rejection_reason}`)], true);
    }
  }

  #addCall(event: ActionEvent): void {
    if (this.#batch?.responseId !== event.llm_response_id || this.#openCalls.size === 0) {
      const message = {
        role: "assistant" as const,
        text: event.thought.map((part) => part.text).join("\n"),
        reasoning: event.reasoning_content,
        thinkingBlocks: event.thinking_blocks,
        toolCalls: [],
      };
      this.messages.push(message);
      this.#batch = { responseId: event.llm_response_id, message };
    }
    this.#batch.message.toolCalls.push(event.tool_call);
    this.#openCalls.add(event.tool_call_id);
  }

  #addResult(event: { tool_call_id: string; tool_name: string }, content: Content[], isError: boolean): void {
    // A second result of a call (a late one after an interrupt) would make the prompt invalid.
    if (!this.#openCalls.delete(event.tool_call_id)) return;
    this.messages.push({ role: "tool", toolCallId: event.tool_call_id, toolName: event.tool_name, content, isError });
    if (this.#openCalls.size > 0) return;
    this.messages.push(...this.#waiting);
    this.#waiting = [];
  }

  #push(message: ModelMessage): void {
    (this.#openCalls.size > 0 ? this.#waiting : this.messages).push(message);
  }
}

function readMessage(event: MessageEvent): ModelMessage {
  const { role, content, reasoning_content, thinking_blocks } = event.llm_message;
  if (role !== "assistant") return { role: "user", content: [...content, ...event.extended_content] };
  return {
    role,
    text: content.map((part) => (part.type === "text" ? part.text : "")).join(""),
    reasoning: reasoning_content,
    thinkingBlocks: thinking_blocks ?? [],
    toolCalls: [],
  };
}
