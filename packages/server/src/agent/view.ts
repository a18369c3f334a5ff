import type { ActionEvent, Content, Event, MessageEvent } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import type { ModelMessage } from "../models/model.ts";
import type { Tool } from "./tool.ts";

const goOn: ModelMessage = { role: "user", content: [textContent("Go on with the latest message of the user.")] };

/**
 * What the model reads of a conversation, kept up to date event by event.
 * A batch of tool calls and its results stay together, and an answer follows what it answers: a message that arrives while the
 * model is being called or while results are missing is read after them.
 */
export class View {
  readonly messages: ModelMessage[] = [];
  /** Blocks of the system message; empty until the log has a SystemPromptEvent. */
  system: string[] = [];
  readonly #tools: ReadonlyMap<string, Tool>;
  readonly #openCalls = new Set<string>();
  #waiting: ModelMessage[] = [];
  #calling = false;
  #batch: { responseId: string; message: Extract<ModelMessage, { role: "assistant" }> } | undefined;

  constructor(tools: readonly Tool[]) {
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
  }

  /** The messages for a call that starts now; it ends with the events of its answer. */
  startCall(): ModelMessage[] {
    this.#release();
    this.#calling = true;
    const last = this.messages.at(-1);
    // After a crash the log may end in an answer that came after an unread message; no provider takes that as a prompt.
    return last?.role === "assistant" ? [...this.messages, goOn] : this.messages.slice();
  }

  add(event: Event): void {
    switch (event.kind) {
      case "SystemPromptEvent":
        this.system = [event.system_prompt.text, ...(event.dynamic_context ? [event.dynamic_context.text] : [])];
        return;
      case "MessageEvent":
        return this.#addMessage(readMessage(event));
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
    this.#calling = false;
    this.#batch.message.toolCalls.push(event.tool_call);
    this.#openCalls.add(event.tool_call_id);
  }

  #addResult(event: { tool_call_id: string; tool_name: string }, content: Content[], isError: boolean): void {
    // A second result of a call (a late one after an interrupt) would make the prompt invalid.
    if (!this.#openCalls.delete(event.tool_call_id)) return;
    this.messages.push({ role: "tool", toolCallId: event.tool_call_id, toolName: event.tool_name, content, isError });
    if (this.#openCalls.size === 0) this.#release();
  }

  #addMessage(message: ModelMessage): void {
    if (message.role === "assistant") {
      this.messages.push(message);
      this.#release();
    } else if (this.#calling || this.#openCalls.size > 0) {
      this.#waiting.push(message);
    } else {
      this.messages.push(message);
    }
  }

  #release(): void {
    this.#calling = false;
    this.messages.push(...this.#waiting);
    this.#waiting = [];
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
