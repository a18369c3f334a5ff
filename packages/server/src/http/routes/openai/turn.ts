import { PlatformError } from "@sandpiper/core/errors";
import { type CompletionUsage, type Content, contentText, type Event, newId } from "@sandpiper/wire";
import type { Conversations, Frame } from "../../../conversations/api.ts";
import type { ConversationRow } from "../../../store/conversation-store.ts";

/** Most characters that may wait for a client that does not read. */
const maxWaiting = 8 * 1024 * 1024;

/** New text of the agent, or of its reasoning; undefined after a time without any. */
export type Piece = { content?: string; reasoning?: string } | undefined;

/** The answer to a message, and what it has cost. */
export interface Answer {
  text: string;
  usage: CompletionUsage;
}

/** One message to an agent and everything that the agent says until its turn ends. Who stops listening does not stop the agent. */
export class Turn {
  readonly #conversations: Conversations;
  readonly #row: ConversationRow;
  readonly #before: CompletionUsage;
  readonly #messageId = newId();
  readonly #ended = Promise.withResolvers<void>();
  readonly #leave: () => void;
  readonly #timer: NodeJS.Timeout;
  /** The message is in the log. */
  #begun = false;
  #isOver = false;
  #failure: PlatformError | undefined;
  /** The last thing that the agent has said to the user. */
  #answer = "";
  #error = "";
  /** Text of the step that goes on, as deltas have brought it. */
  #step = "";
  /** Not taken yet. */
  #content = "";
  #reasoning = "";
  #hasContent = false;
  #wake = () => {};

  /** `limitMs`: how long the turn may take. */
  constructor(conversations: Conversations, row: ConversationRow, limitMs: number) {
    this.#conversations = conversations;
    this.#row = row;
    this.#before = usageOf(row);
    this.#ended.promise.catch(() => {});
    this.#leave = conversations.follow(
      row.id,
      (frame) => this.#take(frame),
      () =>
        this.stop(
          new PlatformError(
            "ConversationNotFound",
            "The conversation was deleted before the agent had answered.",
          ),
        ),
    );
    const late = () =>
      this.stop(
        new PlatformError(
          "TurnTimeout",
          `The agent has not ended its turn within ${limitMs / 60_000} minutes; it goes on.`,
        ),
      );
    this.#timer = setTimeout(late, limitMs);
  }

  /** Sends the message. Throws what `Conversations.send` throws; the turn is over then. */
  async begin(message: Content[]): Promise<void> {
    try {
      await this.#conversations.send(this.#row.id, message, { run: true, eventId: this.#messageId });
    } catch (error) {
      this.stop(new PlatformError("TurnFailed", "The message could not be sent."));
      throw error;
    }
  }

  /** Stops listening; `answer` throws the reason. */
  stop(reason: PlatformError): void {
    this.#failure ??= this.#isOver ? undefined : reason;
    this.#close();
  }

  /** Waits for the end of the turn. Throws TurnUnfinished, TurnFailed, TurnTimeout, ConversationNotFound. */
  async answer(): Promise<Answer> {
    await this.#ended.promise;
    if (this.#failure) throw this.#failure;
    const now = this.#conversations.get(this.#row.userId, this.#row.id);
    return { text: this.#answer, usage: difference(usageOf(now ?? this.#row), this.#before) };
  }

  /** What the agent says, as it comes, until the turn is over. Undefined comes after `beatMs` without anything. */
  async *pieces(beatMs: number): AsyncGenerator<Piece> {
    for (;;) {
      const [content, reasoning] = [this.#content, this.#reasoning];
      this.#content = this.#reasoning = "";
      if (content || reasoning) yield { ...(reasoning && { reasoning }), ...(content && { content }) };
      else if (this.#isOver) return;
      else if (!(await this.#woken(beatMs))) yield undefined;
    }
  }

  #woken(beatMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), beatMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }

  #take({ json }: Frame): void {
    const event = JSON.parse(json) as Event;
    if (event.id === this.#messageId) this.#begun = true;
    else if (this.#begun) this.#read(event);
  }

  #read(event: Event): void {
    switch (event.kind) {
      case "StreamingDeltaEvent":
        if (event.reasoning_content) this.#add("", event.reasoning_content);
        if (!event.content) return;
        this.#add(this.#step === "" ? this.#separator() + event.content : event.content);
        this.#step += event.content;
        return;
      case "MessageEvent":
        if (event.source !== "agent") return;
        this.#say(contentText(event.llm_message.content));
        return;
      case "ActionEvent":
        this.#tell(contentText(event.thought));
        this.#step = "";
        if (event.action?.kind === "FinishAction") this.#say(event.action.message);
        return;
      case "ConversationErrorEvent":
        this.#error = event.detail;
        return;
      case "ConversationStateUpdateEvent":
        if (event.key === "full_state")
          this.#end((event.value as { execution_status: string }).execution_status);
    }
  }

  /** What the agent says to the user. */
  #say(text: string): void {
    this.#tell(text);
    this.#step = "";
    this.#answer = text;
  }

  /** The whole text of a step: what the deltas have not brought of it. A call that was tried again may have brought more. */
  #tell(text: string): void {
    const [told, whole] = [this.#step.trim(), text.trim()];
    if (told.endsWith(whole)) return;
    if (told !== "" && whole.startsWith(told)) this.#add(whole.slice(told.length));
    else this.#add(this.#separator() + whole);
  }

  /** Between the texts of two steps. */
  #separator(): string {
    return this.#hasContent ? "\n\n" : "";
  }

  #add(content: string, reasoning = ""): void {
    this.#hasContent ||= content !== "";
    this.#content += content;
    this.#reasoning += reasoning;
    if (this.#content.length + this.#reasoning.length > maxWaiting)
      this.stop(new PlatformError("TurnTimeout", "The client does not read what the agent says."));
    this.#wake();
  }

  /** The frame of the whole state comes when a run is over, also where another message has lengthened it. */
  #end(status: string): void {
    if (status === "running") return;
    const detail = this.#error || `The agent has ended its turn with the status ${status}.`;
    if (status === "error" || status === "stuck") this.stop(new PlatformError("TurnFailed", detail));
    else if (status === "waiting_for_confirmation") {
      const how = "approve or refuse it in the conversation, or let the settings ask for no confirmation";
      this.stop(new PlatformError("TurnUnfinished", `The agent waits for a confirmation: ${how}.`));
    } else if (status !== "finished") {
      this.stop(
        new PlatformError(
          "TurnUnfinished",
          `The conversation was stopped before the agent had answered: it is ${status}.`,
        ),
      );
    }
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

function usageOf({ summary }: ConversationRow): CompletionUsage {
  const { prompt_tokens = 0, completion_tokens = 0 } = summary.metrics?.accumulated_token_usage ?? {};
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

function difference(after: CompletionUsage, before: CompletionUsage): CompletionUsage {
  const [prompt_tokens, completion_tokens] = [
    after.prompt_tokens - before.prompt_tokens,
    after.completion_tokens - before.completion_tokens,
  ];
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}
