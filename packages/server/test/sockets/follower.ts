import { WebSocket } from "ws";
import type { ServerProcess } from "../support/server-process.ts";

/** How a client resumes: by the last event's time or number, or an event stream's id. */
export type Way = "after_timestamp" | "after_seq" | "Last-Event-ID";

interface StoredEvent {
  kind?: string;
  id?: string;
  timestamp?: string;
}

/**
 * A client that follows a conversation across restarts and keeps the ids of stored events in order
 * of arrival.
 */
export class Follower {
  readonly ids: string[] = [];
  readonly #conversation: string;
  readonly way: Way;
  #timestamp: string | undefined;
  #seq: string | undefined;
  #end: () => void = () => {};

  constructor(conversation: string, way: Way) {
    this.#conversation = conversation;
    this.way = way;
  }

  /** Connects and resumes behind the last event. Resolves when the connection has ended. */
  follow(server: Pick<ServerProcess, "url" | "key">): { opened: Promise<void>; ended: Promise<void> } {
    const url = `${server.url}/sockets/events/${this.#conversation}`;
    return this.way === "Last-Event-ID" ? this.#stream(url, server.key) : this.#socket(url, server.key);
  }

  end(): void {
    this.#end();
  }

  #socket(url: string, key: string) {
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    const all = this.way === "after_seq" ? "after_seq=0" : "resend_mode=all";
    const since = this.way === "after_seq" ? this.#seq : this.#timestamp;
    const query = since === undefined ? all : `resend_mode=since&${this.way}=${since}`;
    const socket = new WebSocket(`${url.replace("http", "ws")}?${query}`, {
      headers: { "x-session-api-key": key },
    });
    this.#end = () => socket.terminate();
    socket.on("error", () => {});
    socket.on("message", (text) => {
      open();
      const event = JSON.parse(String(text)) as StoredEvent & { seq?: number };
      this.#take(event, event.seq?.toString());
    });
    return { opened, ended: new Promise<void>((resolve) => socket.once("close", () => resolve())) };
  }

  #stream(url: string, key: string) {
    const { promise: opened, resolve: open } = Promise.withResolvers<void>();
    const abort = new AbortController();
    this.#end = () => abort.abort();
    const headers = {
      "x-session-api-key": key,
      ...(this.#seq !== undefined && { "last-event-id": this.#seq }),
    };
    const read = async () => {
      const { body } = await fetch(`${url}?resend_mode=all`, { headers, signal: abort.signal });
      let rest = "";
      for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
        open();
        const blocks = (rest + chunk).split("\n\n");
        rest = blocks.pop()!;
        for (const block of blocks) {
          const [, id, data] = /^(?:id: (\d+)\n)?data: (.*)$/s.exec(block) ?? [];
          if (data !== undefined) this.#take(JSON.parse(data), id);
        }
      }
    };
    return { opened, ended: read().catch(() => {}) };
  }

  #take(event: StoredEvent, seq: string | undefined): void {
    this.#seq = seq ?? this.#seq;
    if (event.kind === "ConversationStateUpdateEvent") return;
    // The event of that very time comes again (`>=`), and clients know it by its id.
    if (this.way === "after_timestamp" && event.timestamp === this.#timestamp) return;
    this.#timestamp = event.timestamp;
    this.ids.push(event.id!);
  }
}
