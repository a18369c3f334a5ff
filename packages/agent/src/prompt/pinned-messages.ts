import type { Content } from "@sandpiper/wire";
import { isHookContext } from "../hooks/hooks.ts";

/** A user's or project's text that survives condensation. */
export interface Pinned {
  eventId: string;
  content: readonly Content[];
}

const maxNotes = 1_000;

/** Remembered user messages: hooks may withdraw the latest. */
const maxRequests = 20;

/** Texts that condensation must keep. */
export class PinnedMessages {
  firstRequest: Pinned | undefined;
  /** Skills and rules that messages and results added; texts of hooks are not kept. */
  notes: readonly Pinned[] = [];
  #requests: readonly Pinned[] = [];

  get latestRequest(): Pinned | undefined {
    return this.#requests.at(-1);
  }

  pinRequest(eventId: string, content: readonly Content[]): void {
    const request = { eventId, content };
    this.#requests = [...this.#requests, request].slice(-maxRequests);
    this.firstRequest ??= request;
  }

  pin(eventId: string, content: readonly Content[]): void {
    const lasting = content.filter((part) => part.type === "text" && !isHookContext(part.text));
    if (lasting.length > 0) this.notes = [...this.notes, { eventId, content: lasting }].slice(-maxNotes);
  }

  /** Forgets a user message that a hook blocked. */
  withdraw(eventId: string): void {
    const isOther = (kept: Pinned) => kept.eventId !== eventId;
    this.notes = this.notes.filter(isOther);
    this.#requests = this.#requests.filter(isOther);
    if (this.firstRequest?.eventId === eventId) this.firstRequest = this.#requests[0];
  }
}
