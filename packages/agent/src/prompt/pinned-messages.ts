import type { Content } from "@sandpiper/wire";
import { isHookContext } from "../hooks/hooks.ts";

/** Words of the user or of the project that outlive their message. */
export interface Kept {
  /** The event that brought them. */
  eventId: string;
  content: readonly Content[];
}

/** Texts that are remembered beside their messages. */
const mostTold = 1_000;

/** The latest messages of the user that are remembered: hooks may refuse some of them later. */
const mostRequests = 20;

/** What a history must not lose, however often it is summarised. */
export class KeptWords {
  /** The user's first message. */
  firstRequest: Kept | undefined;
  /** Skills and rules that messages and results brought along. What hooks add is for the moment. */
  told: readonly Kept[] = [];
  #requests: readonly Kept[] = [];

  /** The user's latest message. */
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

  /** A message of the user is not read after all. */
  withdraw(eventId: string): void {
    const isOther = (kept: Kept) => kept.eventId !== eventId;
    this.told = this.told.filter(isOther);
    this.#requests = this.#requests.filter(isOther);
    if (this.firstRequest?.eventId === eventId) this.firstRequest = this.#requests[0];
  }
}
