import type { ActionEvent, Condensation, Content, Event, HookExecutionEvent, MessageEvent, TokenUsage } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import type { ModelMessage } from "../models/model.ts";
import { hookContext, isHookContext } from "./hooks/hooks.ts";
import { readResult } from "./tools/renderers.ts";
import { imagesToDrop, tooMany, withoutImages } from "./view-images.ts";
import { type AssistantMessage, dropNote, goOn, readMessage, startOfCalls, summaryMessage } from "./view-messages.ts";
import { textTokens } from "./view-size.ts";
import { ViewTotals } from "./view-totals.ts";

/** Code of the error that tells why a summary that was asked for did not come. */
export const condensationFailed = "CondensationFailed";

/**
 * The most that a view holds, whatever a model would take: messages, and tokens by estimate. What goes beyond leaves three quarters. A history that is
 * summarised never comes near; that of a conversation without a condenser may.
 */
const most = { messages: 20_000, tokens: 3_000_000 };

/** Texts that are remembered beside their messages. */
const mostTold = 1_000;

/** Words of the user or of the project that outlive their message. */
export interface Kept {
  /** The event that brought them. */
  eventId: string;
  content: readonly Content[];
}

/**
 * What the model reads of a conversation, kept up to date event by event.
 * A batch of tool calls and its results stay together, and an answer follows what it answers: a message that arrives while the
 * model is being called or while results are missing is read after them.
 */
export class View {
  readonly messages: ModelMessage[] = [];
  /** Blocks of the system message; empty until the log has a SystemPromptEvent. */
  system: string[] = [];
  /** The user's first message, and the latest. */
  firstRequest: Kept | undefined;
  latestRequest: Kept | undefined;
  /** Skills and rules that messages and results brought along. What hooks add is for the moment. */
  told: Kept[] = [];
  #requestBefore: Kept | undefined;
  readonly #openCalls = new Set<string>();
  #waiting: ModelMessage[] = [];
  #calling = false;
  readonly #totals = new ViewTotals();
  #condensationRequested = false;
  #batch: { responseId: string; message: AssistantMessage } | undefined;
  #systemTokens = 0;
  /** Stands for what was left out of the view. */
  #dropNote: ModelMessage | undefined;
  /** The newest answer, and the sum of tokens when it had come. */
  #answer: { id: string; tokens: number } | undefined;

  /** Forgets everything: HEAD was moved, and the events of another branch come. */
  reset(): void {
    this.messages.length = 0;
    this.system = [];
    this.firstRequest = undefined;
    this.latestRequest = undefined;
    this.#requestBefore = undefined;
    this.told = [];
    this.#openCalls.clear();
    this.#waiting = [];
    this.#calling = false;
    this.#condensationRequested = false;
    this.#batch = undefined;
    this.#totals.reset();
    this.#systemTokens = 0;
    this.#answer = undefined;
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

  /** Events that the model reads, the system prompt and a summary included. */
  get eventCount(): number {
    return this.#totals.events + (this.system.length > 0 ? 1 : 0);
  }

  /** Tokens of the system message, by estimate. */
  get systemTokens(): number {
    return this.#systemTokens;
  }

  /**
   * Tokens of the next prompt, by estimate; better with the usage of the newest answer, which its provider counted. A count that cannot be is not believed.
   * Takes no longer for a long history.
   */
  promptTokens(usage?: Pick<TokenUsage, "response_id" | "per_turn_token">): number {
    const { tokens } = this.#totals;
    const all = this.#systemTokens + tokens;
    if (!usage?.response_id || usage.response_id !== this.#answer?.id || usage.per_turn_token <= 0) return all;
    const counted = usage.per_turn_token + tokens - this.#answer.tokens;
    return Math.round(Math.min(Math.max(counted, all * 0.7), all * 4 + 20_000));
  }

  /** The number of messages up to the last answer whose calls all have results. */
  get closed(): number {
    const open = this.#openCalls.size > 0 && this.#batch ? this.messages.lastIndexOf(this.#batch.message) : -1;
    return open < 0 ? this.messages.length : open;
  }

  /** The messages up to the last answer whose calls all have results: what a question beside the run can be asked about. */
  complete(): ModelMessage[] {
    return [...this.messages.slice(0, this.closed), ...this.#waiting];
  }

  /** Ids of the events that a message is made of, in order. */
  sources(message: ModelMessage): readonly string[] {
    return this.#totals.sources(message);
  }

  /** Tokens of a message of this view, by estimate. */
  tokensOf(message: ModelMessage): number {
    return this.#totals.tokensOf(message);
  }

  add(event: Event): void {
    switch (event.kind) {
      case "SystemPromptEvent":
        this.system = [event.system_prompt.text, ...(event.dynamic_context ? [event.dynamic_context.text] : [])];
        this.#systemTokens = this.system.reduce((sum, text) => sum + textTokens(text), 0);
        return;
      case "MessageEvent":
        return this.#addMessage(event);
      case "ActionEvent":
        return this.#addCall(event);
      case "ObservationEvent": {
        const extended = event.extended_content ?? [];
        const { observation } = event;
        this.#tell(
          event.id,
          observation.kind === "InvokeSkillObservation" && !observation.is_error ? observation.content : extended,
        );
        return this.#addResult(event, [...readResult(observation), ...extended], observation.is_error);
      }
      case "AgentErrorEvent":
        return this.#addResult(event, [textContent(event.error)], true);
      case "UserRejectObservation":
        return this.#addResult(event, [textContent(`The action was not run: ${event.rejection_reason}`)], true);
      case "HookExecutionEvent":
        return this.#heed(event);
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
      if (isForgotten) {
        this.#totals.remove(message);
        continue;
      }
      kept.push(message);
      position += sources.length;
      if (position <= offset) place = kept.length;
    }
    if (summary) {
      const message = summaryMessage(summary);
      this.#totals.add(message, []);
      kept.splice(place, 0, message);
    }
    this.messages.splice(0, this.messages.length, ...kept);
    // What its provider counted is over.
    this.#answer = undefined;
  }

  #addCall(event: ActionEvent): void {
    if (this.#batch?.responseId !== event.llm_response_id || this.#openCalls.size === 0) {
      const message = startOfCalls(event);
      this.#batch = { responseId: event.llm_response_id, message };
      this.#totals.add(message, []);
      this.#push(message);
    }
    this.#calling = false;
    const { message } = this.#batch;
    const item = event.responses_reasoning_item;
    if (item) message.reasoningItems = [...(message.reasoningItems ?? []), { callsBefore: message.toolCalls.length, item }];
    message.toolCalls.push(event.tool_call);
    this.#totals.extend(message, event.id, event.tool_call.name + event.tool_call.arguments);
    this.#openCalls.add(event.tool_call_id);
    this.#answer = { id: event.llm_response_id, tokens: this.#totals.tokens };
  }

  #addResult(event: { id: string; tool_call_id: string; tool_name: string }, content: Content[], isError: boolean): void {
    // A second result of a call (a late one after an interrupt) would make the prompt invalid.
    if (!this.#openCalls.delete(event.tool_call_id)) return;
    const { id, tool_call_id: toolCallId, tool_name: toolName } = event;
    const message: ModelMessage = { role: "tool", toolCallId, toolName, content, isError };
    this.#totals.add(message, [id]);
    this.#push(message);
    if (this.#openCalls.size === 0) this.#release();
  }

  #addMessage(event: MessageEvent): void {
    const message = readMessage(event);
    this.#totals.add(message, [event.id]);
    if (message.role === "assistant") {
      if (event.llm_response_id) this.#answer = { id: event.llm_response_id, tokens: this.#totals.tokens };
      this.#push(message);
      this.#release();
      return;
    }
    this.#tell(event.id, event.extended_content);
    if (event.source === "user") {
      this.#requestBefore = this.latestRequest;
      this.latestRequest = { eventId: event.id, content: event.llm_message.content };
      this.firstRequest ??= this.latestRequest;
    }
    if (this.#calling || this.#openCalls.size > 0) this.#waiting.push(message);
    else this.#push(message);
  }

  /** A message that hooks block is not read, and what they add is read with it; what they say at a session's start is a message of its own. */
  #heed({ id, hook_event_type: type, message_id: messageId, blocked, additional_context: context }: HookExecutionEvent): void {
    const content = context === undefined ? [] : [textContent(hookContext(context))];
    if (type === "SessionStart" && content.length > 0) {
      const message: ModelMessage = { role: "user", content };
      this.#totals.add(message, [id]);
      if (this.#calling || this.#openCalls.size > 0) this.#waiting.push(message);
      else this.#push(message);
    }
    if (messageId === undefined || (!blocked && content.length === 0)) return;
    for (const list of [this.#waiting, this.messages]) {
      const index = list.findLastIndex((message) => message.role === "user" && this.sources(message)[0] === messageId);
      const message = list[index];
      if (message?.role !== "user") continue;
      this.#totals.remove(message);
      const told: ModelMessage = { role: "user", content: [...message.content, ...content] };
      if (!blocked) this.#totals.add(told, this.sources(message));
      list.splice(index, 1, ...(blocked ? [] : [told]));
    }
    if (!blocked) return this.#tell(messageId, content);
    this.told = this.told.filter(({ eventId }) => eventId !== messageId);
    if (this.latestRequest?.eventId === messageId) this.latestRequest = this.#requestBefore;
    if (this.firstRequest?.eventId === messageId) this.firstRequest = undefined;
  }

  #release(): void {
    this.#calling = false;
    for (const message of this.#waiting.splice(0)) this.#push(message);
  }

  #tell(eventId: string, content: readonly Content[]): void {
    const lasting = content.filter((part) => part.type === "text" && !isHookContext(part.text));
    if (lasting.length === 0) return;
    this.told.push({ eventId, content: lasting });
    if (this.told.length > mostTold) this.told.shift();
  }

  #push(message: ModelMessage): void {
    this.messages.push(message);
    if (tooMany(this.#totals.images)) this.#dropImages();
    if (this.messages.length > most.messages || this.#totals.tokens > most.tokens) this.#dropOldest();
  }

  #dropImages(): void {
    const holders = this.messages.filter((message) => this.#totals.hasImages(message));
    const dropped = new Set(imagesToDrop(holders));
    for (const [index, message] of this.messages.entries()) {
      if (!dropped.has(message)) continue;
      const replacement = withoutImages(message);
      this.#totals.remove(message);
      this.#totals.add(replacement, this.sources(message));
      this.messages[index] = replacement;
    }
  }

  /** What follows the user's first message, and a summary behind it, goes until a quarter of the bound is free; calls go with their results. */
  #dropOldest(): void {
    const { messages, closed } = this;
    let first = messages.findIndex(({ role }) => role === "user") + 1;
    while (first < closed && this.sources(messages[first]!).length === 0) first += 1;
    let end = first;
    const isTooMuch = () => messages.length - (end - first) > most.messages * 0.75 || this.#totals.tokens > most.tokens * 0.75;
    while (end < closed && (isTooMuch() || messages[end]!.role === "tool")) this.#totals.remove(messages[end++]!);
    if (end === first) return;
    const notes = messages[first - 1] === this.#dropNote ? [] : [dropNote()];
    for (const note of notes) {
      this.#totals.add(note, []);
      this.#dropNote = note;
    }
    messages.splice(first, end - first, ...notes);
    this.#answer = undefined;
  }
}
