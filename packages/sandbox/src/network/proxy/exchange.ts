import type { Socket } from "node:net";
import { errorText } from "@sandpiper/core/errors";
import { Refusal } from "./refusal.ts";
import type { ProxySession } from "./session.ts";
import type { Target } from "./target.ts";

/** A request or tunnel from start to end, for the log. */
export class Exchange {
  readonly #session: ProxySession;
  readonly #method: string;
  readonly #target: Target;
  readonly #at = Date.now();
  #upstream: Socket | undefined;
  #address: string | null = null;
  #base = { up: 0, down: 0 };
  #done = false;

  constructor(session: ProxySession, method: string, target: Target) {
    this.#session = session;
    this.#method = method;
    this.#target = target;
  }

  /** Sets the connection and subtracts the traffic of earlier requests on it. */
  setUpstream(upstream: Socket): void {
    this.#upstream = upstream;
    this.#address = upstream.remoteAddress ?? null;
    this.#base = { up: upstream.bytesWritten, down: upstream.bytesRead };
  }

  /** Logs the exchange on the first call. */
  end(reason: string | null = null, decision: "allowed" | "refused" = "allowed"): void {
    if (this.#done) return;
    this.#done = true;
    const upstream = this.#upstream;
    this.#session.record({
      at: this.#at,
      method: this.#method,
      ...this.#target,
      address: this.#address,
      decision,
      reason,
      bytesUp: upstream ? upstream.bytesWritten - this.#base.up : 0,
      bytesDown: upstream ? upstream.bytesRead - this.#base.down : 0,
      durationMs: Date.now() - this.#at,
    });
  }

  /** Logs a failure and returns the response for the sandbox. */
  fail(error: unknown): Refusal {
    const refusal = toRefusal(error);
    this.end(refusal.message, refusal.status < 500 ? "refused" : "allowed");
    return refusal;
  }
}

/** Messages of Node's errors contain addresses and codes, never headers. */
export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  const code = (error as NodeJS.ErrnoException | undefined)?.code;
  return new Refusal(502, `The connection to the server failed (${code ?? errorText(error).slice(0, 100)}).`);
}

/** Enough for a refusal that names a host of 253 characters three times. */
const maxReasonLength = 1_000;

/** The reason phrase of a status line, which is all that many programs show. */
export function toReasonPhrase(sentence: string): string {
  return sentence.replace(/[^\x20-\x7e]/g, "?").slice(0, maxReasonLength);
}
