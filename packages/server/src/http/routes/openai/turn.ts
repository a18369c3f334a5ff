import { type ErrorCode, PlatformError } from "@sandpiper/core/errors";
import { type CompletionUsage, type Content, contentText, type Event, newId } from "@sandpiper/wire";
import type { Conversations, Frame } from "../../../conversations/api.ts";
import type { ConversationRow } from "../../../store/conversation-store.ts";

/** Maximum characters that wait for a slow client. */
const maxWaiting = 8 * 1024 * 1024;

/** New text or reasoning of the agent; undefined after a period of silence. */
export type Delta = { content?: string; reasoning?: string } | undefined;

/** The reply to a message, and its cost. */
export interface Answer {
  text: string;
  usage: CompletionUsage;
}

/**
 * Sends a message to an agent and follows its output until the turn ends. The agent continues when
 * the client stops listening.
 */
export class Turn {
  readonly #conversations: Conversations;
  readonly #row: ConversationRow;
  readonly #before: CompletionUsage;
  readonly #messageId = newId();
  readonly #ended = Promise.withResolvers<void>();
  readonly #leave: () => void;
  readonly #timer: NodeJS.Timeout;
  /** Whether the message is in the log. */
  #started = false;
  #isOver = false;
  #failure: PlatformError | undefined;
  /** The agent's last message to the user. */
  #answer = "";
  #error: PlatformError | undefined;
  /** Text of the current step so far, from deltas. */
  #step = "";
  /** Text that the client has not read yet. */
  #content = "";
  #reasoning = "";
  #hasContent = false;
  #wake = () => {};

  /** `limitMs`: maximum duration of the turn. */
  constructor(conversations: Conversations, row: ConversationRow, limitMs: number) {
    this.#conversations = conversations;
    this.#row = row;
    this.#before = getUsage(row);
    this.#ended.promise.catch(() => {});
    this.#leave = conversations.live.follow(row.id, {
      onFrame: (frame) => this.#onFrame(frame),
      onDeleted: () => this.stop(new PlatformError("TurnConversationDeleted")),
      onMoved: () => this.stop(new PlatformError("SandboxHasMoved", { retryAfter: 1 })),
    });
    const late = () => this.stop(new PlatformError("TurnTooLong", { minutes: limitMs / 60_000 }));
    this.#timer = setTimeout(late, limitMs);
  }

  /** Sends the message. On failure the turn is over. Throws what `Conversations.send` throws. */
  async start(message: Content[]): Promise<void> {
    try {
      await this.#conversations.commands.send(this.#row.id, message, { run: true, eventId: this.#messageId });
    } catch (error) {
      this.stop(new PlatformError("TurnMessageNotSent"));
      throw error;
    }
  }

  /** Stops listening with `reason`, which `answer` throws. */
  stop(reason: PlatformError): void {
    this.#failure ??= this.#isOver ? undefined : reason;
    this.#close();
  }

  /**
   * Waits for the end of the turn. Throws TurnUnfinished, TurnFailed, TurnTimeout,
   * ConversationNotFound.
   */
  async answer(): Promise<Answer> {
    await this.#ended.promise;
    if (this.#failure) throw this.#failure;
    const now = await this.#conversations.reads.get(this.#row.userId, this.#row.id);
    return { text: this.#answer, usage: subtractUsage(getUsage(now ?? this.#row), this.#before) };
  }

  /**
   * Yields the agent's output until the turn is over, and undefined after each `beatMs` of silence.
   */
  async *deltas(beatMs: number): AsyncGenerator<Delta> {
    for (;;) {
      const [content, reasoning] = [this.#content, this.#reasoning];
      this.#content = this.#reasoning = "";
      if (content || reasoning) yield { ...(reasoning && { reasoning }), ...(content && { content }) };
      else if (this.#isOver) return;
      else if (!(await this.#waitForText(beatMs))) yield undefined;
    }
  }

  #waitForText(beatMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), beatMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }

  #onFrame({ json }: Frame): void {
    const event = JSON.parse(json) as Event;
    if (event.id === this.#messageId) this.#started = true;
    else if (this.#started) this.#onEvent(event);
  }

  #onEvent(event: Event): void {
    switch (event.kind) {
      case "StreamingDeltaEvent":
        if (event.reasoning_content) this.#add("", event.reasoning_content);
        if (!event.content) return;
        this.#add(this.#step === "" ? this.#separator() + event.content : event.content);
        this.#step += event.content;
        return;
      case "MessageEvent":
        if (event.source !== "agent") return;
        this.#addMessage(contentText(event.llm_message.content));
        return;
      case "ActionEvent":
        this.#addStep(contentText(event.thought));
        this.#step = "";
        if (event.action?.kind === "FinishAction") this.#addMessage(event.action.message);
        return;
      case "ConversationErrorEvent":
        this.#error = toTurnFailure(event);
        return;
      case "ConversationStateUpdateEvent":
        if (event.key === "full_state")
          this.#onStatus((event.value as { execution_status: string }).execution_status);
    }
  }

  #addMessage(text: string): void {
    this.#addStep(text);
    this.#step = "";
    this.#answer = text;
  }

  /**
   * Adds the part of a step's text that deltas have not delivered; a retried call may have sent
   * more.
   */
  #addStep(text: string): void {
    const [streamed, whole] = [this.#step.trim(), text.trim()];
    if (streamed.endsWith(whole)) return;
    if (streamed !== "" && whole.startsWith(streamed)) this.#add(whole.slice(streamed.length));
    else this.#add(this.#separator() + whole);
  }

  /** Separates the texts of two steps. */
  #separator(): string {
    return this.#hasContent ? "\n\n" : "";
  }

  #add(content: string, reasoning = ""): void {
    this.#hasContent ||= content !== "";
    this.#content += content;
    this.#reasoning += reasoning;
    if (this.#content.length + this.#reasoning.length > maxWaiting)
      this.stop(new PlatformError("TurnClientTooSlow"));
    this.#wake();
  }

  /** The full state arrives when a run ends; a queued message may continue the run. */
  #onStatus(status: string): void {
    if (status === "running") return;
    if (status === "error" || status === "stuck")
      this.stop(this.#error ?? new PlatformError("TurnEnded", { status }));
    else if (status === "waiting_for_confirmation") this.stop(new PlatformError("TurnNeedsConfirmation"));
    else if (status !== "finished") this.stop(new PlatformError("TurnStopped", { status }));
    this.#close();
  }

  #close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#leave();
    this.#ended.resolve();
    this.#wake();
  }
}

/** The error that ended a turn, with the status that every route gives to its cause. */
function toTurnFailure({ code, detail }: { code: string; detail: string }): PlatformError {
  if (/^(?:Max|Daily)BudgetReached$/.test(code)) return new PlatformError("BudgetReached", detail);
  if (causes.has(code)) return new PlatformError(code as ErrorCode, detail);
  return new PlatformError("TurnFailedWith", { detail });
}

/** Codes of failed model calls in `ConversationErrorEvent`s. */
const causes: ReadonlySet<string> = new Set<ErrorCode>([
  "ModelNotConfigured",
  "ModelRefused",
  "ModelFailed",
  "ModelTimeout",
]);

function getUsage({ summary }: ConversationRow): CompletionUsage {
  const { prompt_tokens = 0, completion_tokens = 0 } = summary.metrics?.accumulated_token_usage ?? {};
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

function subtractUsage(after: CompletionUsage, before: CompletionUsage): CompletionUsage {
  const [prompt_tokens, completion_tokens] = [
    after.prompt_tokens - before.prompt_tokens,
    after.completion_tokens - before.completion_tokens,
  ];
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}
