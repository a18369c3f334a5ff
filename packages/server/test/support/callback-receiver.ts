import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** A delivery as an endpoint got it. */
export interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  events: { kind: string; id: string; llm_message?: { content: { text: string }[] } }[];
}

type Answer = { status: number; headers?: Record<string, string>; body?: string } | "hang" | "cut";

/** An HTTP endpoint on loopback that takes deliveries and answers them as a test wants. */
export class TestEndpoint {
  readonly received: Received[] = [];
  /** Decides the answer to the n-th request, from 0. */
  answer: (index: number) => Answer = () => ({ status: 200 });
  /** Requests that are being answered now, and the most there were at once. */
  open = 0;
  mostOpen = 0;
  #server: Server;
  #port = 0;
  #waiting: (() => void)[] = [];

  constructor() {
    this.#server = this.#make();
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/hook`;
  }

  async listen(): Promise<this> {
    this.#server.listen(this.#port, "127.0.0.1");
    await once(this.#server, "listening");
    this.#port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
    this.#server = this.#make();
  }

  /** Waits for that many requests, answered or not. */
  async requests(count: number): Promise<Received[]> {
    while (this.received.length < count) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return this.received;
  }

  /** Texts of the messages in all requests. */
  texts(received: readonly Received[] = this.received): string[] {
    return received.flatMap(({ events }) =>
      events.flatMap(({ llm_message }) => llm_message?.content[0]?.text ?? []),
    );
  }

  #make(): Server {
    return createServer(async (request, response) => {
      this.open += 1;
      this.mostOpen = Math.max(this.mostOpen, this.open);
      response.once("close", () => {
        this.open -= 1;
      });
      const pieces: Buffer[] = [];
      try {
        for await (const piece of request) pieces.push(piece);
      } catch {
        return;
      }
      const body = Buffer.concat(pieces).toString();
      const answer = this.answer(this.received.length);
      this.received.push({
        path: request.url ?? "",
        headers: request.headers,
        body,
        events: JSON.parse(body || "[]"),
      });
      for (const wake of this.#waiting.splice(0)) wake();
      if (answer === "hang") return;
      if (answer === "cut") return void request.socket.destroy();
      response.writeHead(answer.status, answer.headers).end(answer.body ?? "");
    });
  }
}
