import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { SlotKind, SlotStore, SlotsOf } from "../store/slot-store.ts";

/** Interval at which a node looks whether a holder that waits gets a slot, ms. */
const pollMs = 1_000;

export interface SharedSlotsDeps {
  slots: SlotStore;
  kind: SlotKind;
  /** Slots of each user; 0: no limit. */
  max: number;
  /** Present incarnation of this node. */
  node(): string;
  logger: Pick<Logger, "warn">;
}

interface Holder {
  userId: string;
  /** Incarnation of this node when the holder asked. */
  node: string;
  /** Position in the user's queue, from 1; 0: it has its slot. */
  position: number;
}

/**
 * The slots of each user that all nodes share, as this node uses them. The database decides who
 * gets a slot, in the order in which the holders asked. A node that waits learns from a
 * notification that a slot is free, or looks each second.
 */
export class SharedSlots {
  readonly #deps: SharedSlotsDeps;
  readonly #holders = new Map<string, Holder>();
  /** Holders that have waited and got a slot which `next` has not returned yet, by user. */
  readonly #given = new Map<string, Set<string>>();
  /** Slots that this node could not return. */
  readonly #unfreed = new Map<string, SlotsOf>();
  /** Serialises the statements for a user, so that answers arrive in their order. */
  readonly #turns = new KeyedMutex();
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #listeners: ((userId: string) => void)[] = [];

  constructor(deps: SharedSlotsDeps) {
    this.#deps = deps;
    if (deps.max === 0) return;
    deps.slots.onFreed((kind, userId) => {
      if (kind === deps.kind && this.#isAwaited(userId)) this.#look(userId);
    });
    this.#timer = setInterval(() => this.#poll(), pollMs).unref();
  }

  /** Calls the listener when `next` returns a holder of the user. */
  onTurn(listener: (userId: string) => void): void {
    this.#listeners.push(listener);
  }

  /** Takes a slot; false: the holder waits for one. Throws what the store throws. */
  acquire(userId: string, holder: string): Promise<boolean> | boolean {
    if (this.#deps.max === 0) return true;
    return this.#turns.run(userId, async () => {
      if (!this.has(holder)) await this.#share(userId, holder);
      this.#given.get(userId)?.delete(holder);
      return this.has(holder);
    });
  }

  /** Takes a slot even when none is free. Never rejects. */
  async keep(userId: string, holder: string): Promise<void> {
    await this.#turns.run(userId, () => this.#share(userId, holder, true)).catch(this.#warn);
  }

  has(holder: string): boolean {
    return this.#holders.get(holder)?.position === 0;
  }

  isWaiting(_userId: string, holder: string): boolean {
    return (this.position(_userId, holder) ?? 0) > 0;
  }

  /** Position of a holder in the user's queue, from 1; undefined when it does not wait. */
  position(_userId: string, holder: string): number | undefined {
    return this.#holders.get(holder)?.position || undefined;
  }

  /** Returns the slot of a holder, or takes it out of the queue. */
  release(userId: string, holder: string): void {
    if (this.#deps.max === 0) return;
    const known = this.#forget(userId, holder);
    void this.#turns.run(userId, async () => {
      // A request of the holder may have been in progress.
      const { node } = this.#forget(userId, holder) ?? known ?? {};
      if (node !== undefined) await this.#free(holder, this.#slotsOf(userId, node));
      if (this.#isAwaited(userId)) this.#look(userId);
    });
  }

  /**
   * Forgets a holder that goes on at another node. The holder keeps its slot or its place in the
   * database, which counts at most until this node's lease ends.
   */
  leave(userId: string, holder: string): void {
    this.#forget(userId, holder);
    // A request of the holder may be in progress.
    void this.#turns.run(userId, async () => void this.#forget(userId, holder));
  }

  /**
   * Returns a holder that has waited and has a slot now; undefined: none has. Never rejects.
   */
  async next(userId: string): Promise<string | undefined> {
    if (!this.#given.get(userId)?.size && this.#isAwaited(userId))
      await this.#turns.run(userId, () => this.#share(userId)).catch(this.#warn);
    const given = this.#given.get(userId);
    const [first] = given ?? [];
    if (first !== undefined) given!.delete(first);
    return first;
  }

  /** Users whose holders have waited at other nodes for a second. Never rejects. */
  usersWaiting(): Promise<string[]> {
    const { slots, kind, node } = this.#deps;
    return slots.usersWaiting({ kind, node: node() }).catch((error: unknown) => {
      this.#warn(error);
      return [];
    });
  }

  /** Whether this node should free a slot of the user for another node. Never rejects. */
  shouldFree(userId: string): Promise<boolean> {
    const asked = this.#deps.slots.shouldFree(this.#slotsOf(userId, this.#deps.node()));
    return asked.catch((error: unknown) => {
      this.#warn(error);
      return false;
    });
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Looks whether holders that wait have got a slot, and tells the listeners. Never rejects. */
  #look(userId: string): void {
    void this.#turns
      .run(userId, () => this.#share(userId))
      .then(() => {
        if (this.#given.get(userId)?.size) for (const listener of this.#listeners) listener(userId);
      })
      .catch(this.#warn);
  }

  #poll(): void {
    for (const [holder, slots] of this.#unfreed)
      void this.#turns.run(slots.userId, async () => {
        // The holder may have asked for a slot again.
        if (this.#unfreed.get(holder) === slots) await this.#free(holder, slots);
      });
    const waiting = [...this.#holders.values()].filter(({ position }) => position > 0);
    for (const userId of new Set(waiting.map((one) => one.userId))) this.#look(userId);
  }

  async #share(userId: string, asks?: string, force = false): Promise<void> {
    const node = this.#deps.node();
    const slots = this.#slotsOf(userId, node);
    const places = await this.#deps.slots.share(slots, asks, { force }).catch((error: unknown) => {
      // The holder may have a row, which nobody needs unless the holder asks again.
      if (asks !== undefined && !this.#holders.has(asks)) this.#unfreed.set(asks, slots);
      throw error;
    });
    if (asks !== undefined) {
      this.#unfreed.delete(asks);
      this.#holders.set(asks, { userId, node, position: 0 });
    }
    for (const { holder, position } of places) {
      const known = this.#holders.get(holder);
      if (!known) await this.#free(holder, slots);
      else {
        known.position = position;
        if (position === 0 && holder !== asks) this.#give(userId, holder);
      }
    }
    await this.#askAgain(userId, new Set(places.map(({ holder }) => holder)));
  }

  /**
   * Asks for the holders that wait here and are not among those that the database knows to wait: an
   * answer was lost that gave them their slots.
   */
  async #askAgain(userId: string, told: ReadonlySet<string>): Promise<void> {
    for (const [holder, known] of this.#holders) {
      if (known.userId !== userId || known.position === 0 || told.has(holder)) continue;
      await this.#share(userId, holder);
      if (this.has(holder)) this.#give(userId, holder);
    }
  }

  #give(userId: string, holder: string): void {
    this.#given.set(userId, (this.#given.get(userId) ?? new Set()).add(holder));
  }

  async #free(holder: string, slots: SlotsOf): Promise<void> {
    this.#unfreed.set(holder, slots);
    try {
      await this.#deps.slots.free(slots, holder);
      if (this.#unfreed.get(holder) === slots) this.#unfreed.delete(holder);
    } catch (error) {
      this.#warn(error);
    }
  }

  #forget(userId: string, holder: string): Holder | undefined {
    const known = this.#holders.get(holder);
    this.#holders.delete(holder);
    this.#given.get(userId)?.delete(holder);
    return known;
  }

  #isAwaited(userId: string): boolean {
    for (const holder of this.#holders.values())
      if (holder.userId === userId && holder.position > 0) return true;
    return false;
  }

  #slotsOf(userId: string, node: string): SlotsOf {
    const { kind, max } = this.#deps;
    return { kind, userId, node, max };
  }

  readonly #warn = (error: unknown): void => {
    this.#deps.logger.warn(
      { kind: this.#deps.kind, reason: errorText(error) },
      "slots of a user could not be read or written",
    );
  };
}
