import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { splice } from "@sandpiper/core/http-proxy";
import { judgeTarget } from "../policy/policy.ts";
import { type Opening, parseOpening } from "../tls/client-hello.ts";
import { Exchange } from "./exchange.ts";
import { idleMs, refuseRaw } from "./forward.ts";
import { Refusal } from "./refusal.ts";
import type { Session } from "./session.ts";
import type { Target } from "./target.ts";

/** Hands a connection over to those who see into it. */
export interface Inspector {
  /** What comes is HTTP. */
  plain(client: Duplex, target: Target): void;
  /** What comes is TLS. */
  tls(client: Duplex, target: Target): void;
}

/** The client's greeting is not answered in this time, ms. */
const greetingMs = 30_000;
/** TLS alert: fatal, unrecognized_name. */
const nameAlert = Buffer.from([21, 3, 1, 0, 2, 2, 112]);

/**
 * Serves CONNECT. Where the policy names what is allowed, the first bytes must be what the port is for: TLS that names the same host, HTTP on port 80
 * (which is then seen request by request), and anything but on port 443 otherwise. Never rejects.
 */
export async function tunnel(
  session: Session,
  target: Target,
  client: Duplex,
  inspector: Inspector,
): Promise<void> {
  const exchange = new Exchange(session, "CONNECT", target);
  let upstream: Socket | undefined;
  const verdict = judgeTarget(session.policy, target);
  try {
    if (verdict.refusal) throw new Refusal(403, verdict.refusal);
    if (!verdict.inspect && !session.credentials.covers(target)) {
      upstream = await session.dial(target);
      exchange.setUpstream(upstream);
    }
    if (client.destroyed) throw new Refusal(400, "The sandbox went away.");
  } catch (error) {
    upstream?.destroy();
    return refuseRaw(client, exchange.fail(error));
  }
  client.write("HTTP/1.1 200 Connection established\r\n\r\n");
  if (upstream && session.policy.mode === "open")
    return splice(client, upstream, { idleMs, onDone: () => exchange.end() });
  // A server may speak first, before the client shows what this is.
  if (upstream && target.port !== 443) upstream.pipe(client);
  const opening = await peek(client, upstream ? idleMs : greetingMs);
  const refusal = judgeOpening(opening, target, upstream !== undefined);
  if (refusal !== undefined) {
    exchange.end(refusal, "refused");
    upstream?.destroy();
    client.end(opening.kind === "tls" ? nameAlert : undefined);
    return;
  }
  if (opening.kind === "tls" && !upstream) return inspector.tls(client, target);
  // A credential is for TLS alone; what else the policy lets out goes on untouched, such as git over SSH.
  if (!upstream && !verdict.inspect && opening.kind !== "tls" && ![80, 443].includes(target.port)) {
    upstream = await session.dial(target).catch((error) => void client.destroy(exchange.fail(error)));
    if (!upstream) return;
    exchange.setUpstream(upstream);
  }
  if (opening.kind !== "tls" && (!upstream || target.port === 80)) {
    upstream?.destroy();
    return inspector.plain(client, target);
  }
  upstream!.unpipe(client);
  splice(client, upstream!, { idleMs, onDone: () => exchange.end() });
}

function judgeOpening(opening: Opening, { host, port }: Target, passed: boolean): string | undefined {
  if (opening.kind === "more") return "The connection ended before it began.";
  if (opening.kind === "other") return passed && port === 443 ? "Port 443 is for TLS only." : undefined;
  const { serverName } = opening;
  if (serverName === null || serverName.replace(/\.$/, "") === host) return undefined;
  return `The tunnel to ${host} asked for ${serverName.slice(0, 100).replace(/[^\w.-]/g, "?")} in its TLS greeting: that would need a tunnel of its own.`;
}

/** Waits for the first bytes of a client, and puts them back. `more` means that the connection ended first. */
async function peek(client: Duplex, timeoutMs: number): Promise<Opening> {
  const end = performance.now() + timeoutMs;
  let bytes: Buffer = Buffer.alloc(0);
  let opening: Opening = { kind: "more" };
  while (opening.kind === "more" && !client.readableEnded && !client.destroyed && performance.now() < end) {
    const chunk: Buffer | null = client.read();
    if (chunk === null) await waitForData(client, end - performance.now());
    else {
      bytes = Buffer.concat([bytes, chunk]);
      opening = parseOpening(bytes);
    }
  }
  if (bytes.length > 0 && !client.destroyed && !client.readableEnded) client.unshift(bytes);
  return opening;
}

/** Resolves when a stream has something to read, has ended, or the time is over. */
function waitForData(stream: Duplex, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const events = ["readable", "end", "close"];
    const done = () => {
      clearTimeout(timer);
      for (const event of events) stream.off(event, done);
      resolve();
    };
    const timer = setTimeout(done, timeoutMs);
    for (const event of events) stream.on(event, done);
  });
}
