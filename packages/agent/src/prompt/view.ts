import type { ModelMessage } from "@sandpiper/models/model";
import type {
  ActionEvent,
  Content,
  Event,
  HookExecutionEvent,
  MessageEvent,
  TokenUsage,
} from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { hookContext } from "../hooks/hooks.ts";
import { isNotice } from "../loop/records.ts";
import { toolRegistry } from "../tools/registry.ts";
import { MessageList } from "./message-list.ts";
import { PinnedMessages } from "./pinned-messages.ts";
import {
  type AssistantMessage,
  continueMessage,
  toAssistantMessage,
  toModelMessage,
} from "./view-messages.ts";
import { textTokens } from "./view-size.ts";

/** Error code when a requested condensation failed. */
export const condensationFailed = "CondensationFailed";

/**
 * What the model reads of a conversation, updated event by event. Tool calls stay with their
 * results; a message that arrives during a model call or before missing results is read after them.
 */
export class View {
  /** Blocks of the system message; empty until the SystemPromptEvent. */
  system: string[] = [];
  pinned = new PinnedMessages();
  readonly #list = new MessageList();
  readonly #openCalls = new Set<string>();
  #waiting: ModelMessage[] = [];
  #calling = false;
  /** A requested condensation is pending. */
  condensationRequested = false;
  #batch: { responseId: string; message: AssistantMessage } | undefined;
  /** Estimated tokens of the system message. */
  systemTokens = 0;
  /** The newest answer, and the total tokens after it. */
  #answer: { id: string; tokens: number } | undefined;

  get messages(): readonly ModelMessage[] {
    return this.#list.messages;
  }

  /** Forgets everything, because HEAD moved to another branch. */
  reset(): void {
    this.#list.reset();
    this.system = [];
    this.pinned = new PinnedMessages();
    this.#openCalls.clear();
    this.#waiting = [];
    this.#calling = false;
    this.condensationRequested = false;
    this.#batch = undefined;
    this.systemTokens = 0;
    this.#answer = undefined;
  }

  /** The messages for a call that starts now; the events of its answer end it. */
  startCall(): ModelMessage[] {
    this.#release();
    this.#calling = true;
    const last = this.messages.at(-1);
    // After a crash the log may end in an answer, which no provider accepts.
    return last?.role === "assistant" ? [...this.messages, continueMessage] : this.messages.slice();
  }

  /** Events in the view, system prompt and summary included. */
  get eventCount(): number {
    return this.#list.totals.events + (this.system.length > 0 ? 1 : 0);
  }

  /** Estimated tokens of the next prompt, corrected by a plausible usage. Constant time. */
  promptTokens(usage?: Pick<TokenUsage, "response_id" | "per_turn_token">): number {
    const { tokens } = this.#list.totals;
    const all = this.systemTokens + tokens;
    if (!usage?.response_id || usage.response_id !== this.#answer?.id || usage.per_turn_token <= 0)
      return all;
    const counted = usage.per_turn_token + tokens - this.#answer.tokens;
    return Math.round(Math.min(Math.max(counted, all * 0.7), all * 4 + 20_000));
  }

  /** Number of messages before the answer with open calls. */
  get closed(): number {
    const open =
      this.#openCalls.size > 0 && this.#batch ? this.messages.lastIndexOf(this.#batch.message) : -1;
    return open < 0 ? this.messages.length : open;
  }

  /** The messages without open calls, for side calls. */
  complete(): ModelMessage[] {
    return [...this.messages.slice(0, this.closed), ...this.#waiting];
  }

  /** Ids of a message's events in order. */
  sources(message: ModelMessage): readonly string[] {
    return this.#list.totals.sources(message);
  }

  /** Estimated tokens of a message. */
  tokensOf(message: ModelMessage): number {
    return this.#list.totals.tokensOf(message);
  }

  add(event: Event): void {
    switch (event.kind) {
      case "SystemPromptEvent":
        this.system = [
          event.system_prompt.text,
          ...(event.dynamic_context ? [event.dynamic_context.text] : []),
        ];
        this.systemTokens = this.system.reduce((sum, text) => sum + textTokens(text), 0);
        return;
      case "MessageEvent":
        return isNotice(event) ? undefined : this.#addMessage(event);
      case "ActionEvent":
        return this.#addCall(event);
      case "ObservationEvent": {
        const extended = event.extended_content ?? [];
        const { observation } = event;
        this.pinned.pin(
          event.id,
          observation.kind === "InvokeSkillObservation" && !observation.is_error
            ? observation.content
            : extended,
        );
        return this.#addResult(
          event,
          [...toolRegistry.readResult(observation), ...extended],
          observation.is_error,
        );
      }
      case "AgentErrorEvent":
        return this.#addResult(event, [textContent(event.error)], true);
      case "UserRejectObservation":
        return this.#addResult(
          event,
          [textContent(`The action was not run: ${event.rejection_reason}`)],
          true,
        );
      case "HookExecutionEvent":
        return this.#heed(event);
      case "CondensationRequest":
        this.condensationRequested = true;
        return;
      case "Condensation":
        this.condensationRequested = false;
        // The provider's count is outdated.
        this.#answer = undefined;
        return this.#list.forget(event.forgotten_event_ids, event.summary, event.summary_offset ?? 0);
      case "ConversationErrorEvent":
        if (event.code === condensationFailed) this.condensationRequested = false;
    }
  }

  #addCall(event: ActionEvent): void {
    if (this.#batch?.responseId !== event.llm_response_id || this.#openCalls.size === 0) {
      const message = toAssistantMessage(event);
      this.#batch = { responseId: event.llm_response_id, message };
      this.#list.totals.add(message, []);
      this.#push(message);
    }
    this.#calling = false;
    const { message } = this.#batch;
    const item = event.responses_reasoning_item;
    if (item)
      message.reasoningItems = [
        ...(message.reasoningItems ?? []),
        { callsBefore: message.toolCalls.length, item },
      ];
    message.toolCalls.push(event.tool_call);
    this.#list.totals.extend(message, event.id, event.tool_call.name + event.tool_call.arguments);
    this.#openCalls.add(event.tool_call_id);
    this.#answer = { id: event.llm_response_id, tokens: this.#list.totals.tokens };
  }

  #addResult(
    event: { id: string; tool_call_id: string; tool_name: string },
    content: Content[],
    isError: boolean,
  ): void {
    // A second result (a late one after an interrupt) would make the prompt invalid.
    if (!this.#openCalls.delete(event.tool_call_id)) return;
    const { id, tool_call_id: toolCallId, tool_name: toolName } = event;
    const message: ModelMessage = { role: "tool", toolCallId, toolName, content, isError };
    this.#list.totals.add(message, [id]);
    this.#push(message);
    if (this.#openCalls.size === 0) this.#release();
  }

  #addMessage(event: MessageEvent): void {
    const message = toModelMessage(event);
    this.#list.totals.add(message, [event.id]);
    if (message.role === "assistant") {
      if (event.llm_response_id)
        this.#answer = { id: event.llm_response_id, tokens: this.#list.totals.tokens };
      this.#push(message);
      this.#release();
      return;
    }
    this.pinned.pin(event.id, event.extended_content);
    if (event.source === "user") this.pinned.pinRequest(event.id, event.llm_message.content);
    this.#pushInTurn(message);
  }

  /** Drops a blocked message, or adds hook context to it or as a message of its own. */
  #heed({
    id,
    hook_event_type: type,
    message_id: messageId,
    blocked,
    additional_context: context,
  }: HookExecutionEvent): void {
    const content = context === undefined ? [] : [textContent(hookContext(context))];
    if (type === "SessionStart" && content.length > 0) {
      const message: ModelMessage = { role: "user", content };
      this.#list.totals.add(message, [id]);
      this.#pushInTurn(message);
    }
    if (messageId === undefined || (!blocked && content.length === 0)) return;
    for (const list of [this.#waiting, this.#list.messages]) {
      const index = list.findLastIndex(
        (message) => message.role === "user" && this.sources(message)[0] === messageId,
      );
      const message = list[index];
      if (message?.role !== "user") continue;
      this.#list.totals.remove(message);
      const replacement: ModelMessage = { role: "user", content: [...message.content, ...content] };
      if (!blocked) this.#list.totals.add(replacement, this.sources(message));
      list.splice(index, 1, ...(blocked ? [] : [replacement]));
    }
    if (blocked) this.pinned.withdraw(messageId);
    else this.pinned.pin(messageId, content);
  }

  #release(): void {
    this.#calling = false;
    for (const message of this.#waiting.splice(0)) this.#push(message);
  }

  /** Waits while a call or results are pending. */
  #pushInTurn(message: ModelMessage): void {
    if (this.#calling || this.#openCalls.size > 0) this.#waiting.push(message);
    else this.#push(message);
  }

  #push(message: ModelMessage): void {
    // The provider's count is outdated.
    if (this.#list.push(message, () => this.closed)) this.#answer = undefined;
  }
}
