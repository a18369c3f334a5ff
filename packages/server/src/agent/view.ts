import type { ActionEvent, Condensation, Content, Event, MessageEvent } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import type { ModelMessage } from "../models/model.ts";
import { readResult } from "./tools/renderers.ts";

/** Code of the error that tells why a summary that was asked for did not come. */
export const condensationFailed = "CondensationFailed";

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
  readonly #openCalls = new Set<string>();
  #waiting: ModelMessage[] = [];
  #calling = false;
  /** The events that a message is made of, in order; a summary is made of none. */
  readonly #sources = new WeakMap<ModelMessage, string[]>();
  #condensationRequested = false;
  #batch: { responseId: string; message: Extract<ModelMessage, { role: "assistant" }> } | undefined;

  /** Forgets everything: HEAD was moved, and the events of another branch come. */
  reset(): void {
    this.messages.length = 0;
    this.system = [];
    this.#openCalls.clear();
    this.#waiting = [];
    this.#calling = false;
    this.#condensationRequested = false;
    this.#batch = undefined;
  }

  /** The messages for a call that starts now; it ends with the events of its answer. */
  startCall(): ModelMessage[] {
    this.#release();
    this.#calling = true;
    const last = this.messages.at(-1);
    // After a crash the log may end in an answer that came after an unread message; no provider takes that as a prompt.
    return last?.role === "assistant" ? [...this.messages, goOn] : this.messages.slice();
  }

  /** A summary was asked for and has not come yet. */
  get condensationRequested(): boolean {
    return this.#condensationRequested;
  }

  /** The messages up to the last answer whose calls all have results: what a question beside the run can be asked about. */
  complete(): ModelMessage[] {
    const open = this.#openCalls.size > 0 && this.#batch ? this.messages.lastIndexOf(this.#batch.message) : -1;
    return [...(open < 0 ? this.messages : this.messages.slice(0, open)), ...this.#waiting];
  }

  /** Ids of the events that a message is made of, in order. */
  sources(message: ModelMessage): readonly string[] {
    return this.#sources.get(message) ?? [];
  }

  add(event: Event): void {
    switch (event.kind) {
      case "SystemPromptEvent":
        this.system = [event.system_prompt.text, ...(event.dynamic_context ? [event.dynamic_context.text] : [])];
        return;
      case "MessageEvent":
        return this.#addMessage(event.id, readMessage(event));
      case "ActionEvent":
        return this.#addCall(event);
      case "ObservationEvent": {
        const content = [...readResult(event.observation), ...(event.extended_content ?? [])];
        return this.#addResult(event, content, event.observation.is_error);
      }
      case "AgentErrorEvent":
        return this.#addResult(event, [textContent(event.error)], true);
      case "UserRejectObservation":
        return this.#addResult(event, [textContent(`The action was not run: ${event.rejection_reason}`)], true);
      case "CondensationRequest":
        this.#condensationRequested = true;
        return;
      case "Condensation":
        this.#condensationRequested = false;
        return this.#forget(event);
      case "ConversationErrorEvent":
        if (event.code === condensationFailed) this.#condensationRequested = false;
    }
  }

  /** Calls and their results are forgotten together: no provider takes one without the other. */
  #forget({ forgotten_event_ids: ids, summary, summary_offset: offset = 0 }: Condensation): void {
    const forgotten = new Set(ids);
    const calls = new Set<string>();
    // The system prompt is the first event of a view.
    let position = 1;
    let place = 0;
    const kept: ModelMessage[] = [];
    for (const message of this.messages) {
      const sources = this.sources(message);
      const isForgotten =
        message.role === "tool" ? calls.has(message.toolCallId) : sources.some((id) => forgotten.has(id)) || sources.length === 0;
      if (isForgotten && message.role === "assistant") for (const { id } of message.toolCalls) calls.add(id);
      if (isForgotten) continue;
      kept.push(message);
      position += sources.length;
      if (position <= offset) place = kept.length;
    }
    if (summary) kept.splice(place, 0, { role: "user", content: [textContent(summaryText(summary))] });
    this.messages.splice(0, this.messages.length, ...kept);
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
      this.#sources.set(message, []);
      this.messages.push(message);
      this.#batch = { responseId: event.llm_response_id, message };
    }
    this.#calling = false;
    this.#sources.get(this.#batch.message)?.push(event.id);
    this.#batch.message.toolCalls.push(event.tool_call);
    this.#openCalls.add(event.tool_call_id);
  }

  #addResult(event: { id: string; tool_call_id: string; tool_name: string }, content: Content[], isError: boolean): void {
    // A second result of a call (a late one after an interrupt) would make the prompt invalid.
    if (!this.#openCalls.delete(event.tool_call_id)) return;
    const { id, tool_call_id: toolCallId, tool_name: toolName } = event;
    const message: ModelMessage = { role: "tool", toolCallId, toolName, content, isError };
    this.#sources.set(message, [id]);
    this.messages.push(message);
    if (this.#openCalls.size === 0) this.#release();
  }

  #addMessage(id: string, message: ModelMessage): void {
    this.#sources.set(message, [id]);
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

function summaryText(summary: string): string {
  return `<CONVERSATION_SUMMARY>\nEarlier parts of this conversation were summarised:\n${summary}\n</CONVERSATION_SUMMARY>`;
}
