import { Agent, type IncomingHttpHeaders, request } from "node:http";

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  ms: number;
}

/** Largest answer that is read, bytes; a longer one is a failure. */
const maxAnswer = 32 * 2 ** 20;

/** A keep-alive client that sends exact bytes. It throws when an answer takes over `timeoutMs`. */
export class FuzzClient {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 8 });
  readonly #port: number;
  readonly #timeoutMs: number;

  constructor(port: number, timeoutMs = 150_000) {
    this.#port = port;
    this.#timeoutMs = timeoutMs;
  }

  send(
    method: string,
    url: string,
    headers: Record<string, string>,
    body: string | undefined,
  ): Promise<Answer> {
    const start = performance.now();
    const bytes = body === undefined ? undefined : Buffer.from(body.toWellFormed());
    return new Promise((resolve, reject) => {
      const outgoing = request(
        {
          ...{ agent: this.#agent, host: "127.0.0.1", port: this.#port, method, path: url },
          headers: { ...headers, ...(bytes && { "content-length": bytes.length }) },
          signal: AbortSignal.timeout(this.#timeoutMs),
        },
        (response) => {
          const chunks: Buffer[] = [];
          let size = 0;
          response.on("data", (chunk: Buffer) => {
            chunks.push(chunk);
            size += chunk.length;
            if (size > maxAnswer) response.destroy(new Error(`the answer has more than ${maxAnswer} bytes`));
          });
          response.on("error", reject);
          response.on("end", () => {
            const { statusCode = 0, headers: given } = response;
            resolve({
              status: statusCode,
              headers: given,
              text: Buffer.concat(chunks).toString(),
              ms: performance.now() - start,
            });
          });
        },
      );
      outgoing.on("error", reject);
      outgoing.end(bytes);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}
