import type { Content } from "@sandpiper/wire";
import { isHookContext } from "../hooks/hooks.ts";

/** A user's or project's text that survives condensation. */
export interface Kept {
  eventId: string;
  content: readonly Content[];
}

const mostTold = 1_000;

/** Remembered user messages: hooks may withdraw the latest. */
const mostRequests = 20;

/** Texts that condensation must keep. */
export class KeptWords {
  firstRequest: Kept | undefined;
  /** Skills and rules that messages and results added; texts of hooks are not kept. */
  told: readonly Kept[] = [];
  #requests: readonly Kept[] = [];

  get latestRequest(): Kept | undefined {
    return this.#requests.at(-1);
  }

  request(eventId: string, content: readonly Content[]): void {
    const request = { eventId, content };
    this.#requests = [...this.#requests, request].slice(-mostRequests);
    this.firstRequest ??= request;
  }

  tell(eventId: string, content: readonly Content[]): void {
    const lasting = content.filter((part) => part.type === "text" && !isHookContext(part.text));
    if (lasting.length > 0) this.told = [...this.told, { eventId, content: lasting }].slice(-mostTold);
  }

  /** Forgets a user message that a hook blocked. */
  withdraw(eventId: string): void {
    const isOther = (kept: Kept) => kept.eventId !== eventId;
    this.told = this.told.filter(isOther);
    this.#requests = this.#requests.filter(isOther);
    if (this.firstRequest?.eventId === eventId) this.firstRequest = this.#requests[0];
  }
}
