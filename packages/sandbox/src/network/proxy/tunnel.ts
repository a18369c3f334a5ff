import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { splice } from "@sandpiper/core/http-proxy";
import { judgeTarget } from "../policy/policy.ts";
import { type Opening, OpeningReader } from "../tls/client-hello.ts";
import { Exchange } from "./exchange.ts";
import { idleMs, refuseRaw } from "./forward.ts";
import { Refusal } from "./refusal.ts";
import type { ProxySession } from "./session.ts";
import type { Target } from "./target.ts";

/** Takes over connections whose requests the proxy checks. */
export interface Inspector {
  /** For HTTP. */
  plain(client: Duplex, target: Target): void;
  /** For TLS. */
  tls(client: Duplex, target: Target): void;
}

export interface TunnelClient {
  session: ProxySession;
  /** Whether it says that it trusts the proxy's certificate; else it can send no secret. */
  trusts: boolean;
}

/** Limit for the client's first bytes, ms. */
const openingTimeoutMs = 30_000;
/** TLS alert: fatal, unrecognized_name. */
const nameAlert = Buffer.from([21, 3, 1, 0, 2, 2, 112]);

/**
 * Serves CONNECT. With an allowlist the first bytes must fit the port: TLS for the same host, HTTP
 * on port 80 (checked by request), and on port 443 nothing but TLS. Never rejects.
 */
export async function tunnel(
  { session, trusts }: TunnelClient,
  target: Target,
  client: Duplex,
  inspector: Inspector,
): Promise<void> {
  const exchange = new Exchange(session, "CONNECT", target);
  let upstream: Socket | undefined;
  const verdict = judgeTarget(session.policy, target);
  try {
    if (verdict.refusal) throw new Refusal(403, verdict.refusal);
    if (!verdict.inspect && !(await mustRead(session, target, trusts))) {
      upstream = await session.dial(target);
      exchange.setUpstream(upstream);
    }
    if (client.destroyed) throw new Refusal(400, "The sandbox closed the connection.");
  } catch (error) {
    upstream?.destroy();
    return refuseRaw(client, exchange.fail(error));
  }
  client.write("HTTP/1.1 200 Connection established\r\n\r\n");
  if (upstream && session.policy.mode === "open")
    return splice(client, upstream, { idleMs, onDone: () => exchange.end() });
  // Some servers send first.
  if (upstream && target.port !== 443) upstream.pipe(client);
  const opening = await peek(client, upstream ? idleMs : openingTimeoutMs);
  const refusal = judgeOpening(opening, target, upstream !== undefined);
  if (refusal !== undefined) {
    exchange.end(refusal, "refused");
    upstream?.destroy();
    client.end(opening.kind === "tls" ? nameAlert : undefined);
    return;
  }
  if (opening.kind === "tls" && !upstream) return inspector.tls(client, target);
  // Credentials are only sent over TLS; other allowed traffic, such as git over SSH, passes
  // unchanged.
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

/**
 * Whether a secret may be in the connection. The name of a process proves nothing: it may not keep
 * the proxy from masking a secret that comes back.
 */
async function mustRead({ credentials }: ProxySession, target: Target, trusts: boolean): Promise<boolean> {
  const { covers, mayReturn } = await credentials.findExposure(target);
  return covers && (trusts || mayReturn);
}

function judgeOpening(opening: Opening, { host, port }: Target, passed: boolean): string | undefined {
  if (opening.kind === "more") return "The connection ended before its first bytes.";
  if (opening.kind === "other") return passed && port === 443 ? "Port 443 is for TLS only." : undefined;
  const { serverName } = opening;
  if (serverName === null || serverName.replace(/\.$/, "") === host) return undefined;
  return `The tunnel to ${host} asked for ${serverName.slice(0, 100).replace(/[^\w.-]/g, "?")} in its TLS greeting: that would need a tunnel of its own.`;
}

/** Reads a client's first bytes and puts them back. `more`: the connection ended first. */
async function peek(client: Duplex, timeoutMs: number): Promise<Opening> {
  const end = performance.now() + timeoutMs;
  const reader = new OpeningReader();
  const chunks: Buffer[] = [];
  let opening: Opening = { kind: "more" };
  while (opening.kind === "more" && !client.readableEnded && !client.destroyed && performance.now() < end) {
    const chunk: Buffer | null = client.read();
    if (chunk === null) await waitForData(client, end - performance.now());
    else {
      chunks.push(chunk);
      opening = reader.push(chunk);
    }
  }
  if (chunks.length > 0 && !client.destroyed && !client.readableEnded) client.unshift(Buffer.concat(chunks));
  return opening;
}

/** Resolves when a stream is readable, has ended, or the time is over. */
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
