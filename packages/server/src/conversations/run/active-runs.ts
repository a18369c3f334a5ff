import type { ConversationRow } from "../../store/conversation-store.ts";
import type { RunOwner } from "../../store/event-log.ts";
import type { Custody } from "../custody.ts";
import type { Run } from "./run.ts";
import type { RunSlots } from "./run-queue.ts";

/** The runs of this process, at most one per conversation, and the conversations that wait here. */
export class ActiveRuns {
  readonly #runs = new Map<string, Run>();
  readonly #beginnings = new Map<string, Promise<void>>();
  readonly #slots: RunSlots;
  readonly #custody: Custody;

  constructor(slots: RunSlots, custody: Custody) {
    this.#slots = slots;
    this.#custody = custody;
  }

  /** Whether runs of a conversation may begin here. */
  isHere({ sandboxId }: Pick<ConversationRow, "sandboxId">): boolean {
    return this.#custody.isHere(sandboxId);
  }

  /** Whether another node continues the conversation. */
  isReleased({ sandboxId }: Pick<ConversationRow, "sandboxId">): boolean {
    return this.#custody.isReleased(sandboxId);
  }

  /** See `Custody.requireOwner`. */
  requireOwner({ sandboxId }: Pick<ConversationRow, "sandboxId">): RunOwner | undefined {
    return this.#custody.requireOwner(sandboxId);
  }

  get(conversationId: string): Run | undefined {
    return this.#runs.get(conversationId);
  }

  all(): [conversationId: string, run: Run][] {
    return [...this.#runs];
  }

  /** Whether the conversation has a run, or a run that is about to begin. */
  isAwake(conversationId: string): boolean {
    return this.#runs.has(conversationId) || this.#beginnings.has(conversationId);
  }

  /** Whether the run of the conversation is about to begin. */
  isBeginning(conversationId: string): boolean {
    return this.#beginnings.has(conversationId);
  }

  /** Begins a run with `begin`. No run of the conversation may be about to begin. */
  begin(conversationId: string, begin: () => Promise<void>): Promise<void> {
    const beginning = begin().finally(() => this.#beginnings.delete(conversationId));
    this.#beginnings.set(conversationId, beginning);
    return beginning;
  }

  /** Resolves when a run that is about to begin has begun, waits for its turn or has failed. */
  async begun(conversationId: string): Promise<void> {
    await this.#beginnings.get(conversationId);
  }

  async allBegun(): Promise<void> {
    await Promise.all(this.#beginnings.values());
  }

  /** Whether its run waits for a slot. */
  isWaiting({ userId, id }: Pick<ConversationRow, "userId" | "id">): boolean {
    return this.#slots.isWaiting(userId, id);
  }

  /** Its place among the user's waiting conversations, from 1; undefined when it does not wait. */
  queuePosition({ userId, id }: Pick<ConversationRow, "userId" | "id">): number | undefined {
    return this.#slots.position(userId, id);
  }

  /** Takes a slot for a run; false: the conversation waits for one. */
  acquireSlot({ userId, id, config }: ConversationRow): boolean | Promise<boolean> {
    // A sub-agent uses the slot of its parent.
    return Boolean(config.task) || this.#slots.acquire(userId, id);
  }

  add(conversationId: string, run: Run): void {
    this.#runs.set(conversationId, run);
  }

  /** Removes an ended run and returns its slot. */
  remove({ userId, id }: Pick<ConversationRow, "userId" | "id">): void {
    this.#runs.delete(id);
    this.releaseSlot({ userId, id });
  }

  /** Removes the run of a conversation that moves, and leaves its slot to the next node. */
  leave({ userId, id }: Pick<ConversationRow, "userId" | "id">): void {
    this.#runs.delete(id);
    this.#slots.leave(userId, id);
  }

  /** Returns the slot of a conversation, or takes it out of the queue. */
  releaseSlot({ userId, id }: Pick<ConversationRow, "userId" | "id">): void {
    this.#slots.release(userId, id);
  }

  /** See `RunSlots.next`. */
  nextWaiting(userId: string): string | undefined | Promise<string | undefined> {
    return this.#slots.next(userId);
  }
}
