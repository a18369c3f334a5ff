import { Agent, type ClientRequestArgs } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Target } from "./target.ts";

/** Lifetime of an idle upstream connection, ms: shorter than servers' usual limits. */
const keepAliveMs = 4_000;

/** Opens connections by `dial`; with `keepAlive` they serve further requests. */
export class UpstreamAgent extends Agent {
  readonly #dial: (target: Target) => Promise<Socket>;

  constructor(dial: (target: Target) => Promise<Socket>, keepAlive: boolean) {
    super({ keepAlive, maxFreeSockets: 16 });
    this.#dial = dial;
  }

  override createConnection(
    options: ClientRequestArgs,
    give?: (error: Error | null, stream: Duplex) => void,
  ): undefined {
    this.#dial({ host: String(options.host), port: Number(options.port) }).then(
      (socket) => give?.(null, socket),
      // The types require a stream even with an error.
      (error) => give?.(error, undefined as never),
    );
  }

  override keepSocketAlive(socket: Duplex): boolean {
    // Returns a boolean, although its type is void.
    const keep = super.keepSocketAlive(socket) as unknown as boolean;
    (socket as Socket).setTimeout(keepAliveMs);
    return keep;
  }
}
