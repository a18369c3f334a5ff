import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** The server that is attacked, and what its attacker may use. */
export interface Target {
  url: string;
  /** A key of an ordinary user. */
  key: string;
  /** A sandbox and a conversation of the user; empty at a bare server. */
  sandboxId: string;
  conversationId: string;
}

export interface Attack {
  name: string;
  /** It needs routes, which a bare server does not have. */
  needsPlatform?: true;
  /** Attacks until the signal; what it opened is closed by the end of its process. */
  run(target: Target, signal: AbortSignal): Promise<unknown>;
}

/** Addresses of the loopback network, so that requests seem to come from many clients. */
export function address(index: number): string {
  return `127.0.${1 + (Math.floor(index / 250) % 250)}.${1 + (index % 250)}`;
}

/** The head of a request, with its lines of headers. */
export function head(target: Target, first: string, ...headers: string[]): string {
  return [`${first} HTTP/1.1`, `Host: ${new URL(target.url).host}`, ...headers, "", ""].join("\r\n");
}

export function keyLine({ key }: Target): string {
  return `X-Session-API-Key: ${key}`;
}

/** A connection whose end is no failure; reads and forgets what comes. */
export function dial({ url }: Target, localAddress?: string): Socket {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), ...(localAddress ? { localAddress } : {}) });
  socket.on("error", () => {});
  socket.setNoDelay(true).resume();
  return socket;
}

/** Runs `lanes` loops at once until the signal; a round that fails waits for a moment. */
export async function loops(
  lanes: number,
  signal: AbortSignal,
  round: (lane: number, index: number) => Promise<unknown>,
): Promise<void> {
  const loop = async (lane: number) => {
    for (let index = 0; !signal.aborted; index++) await round(lane, index).catch(() => delay(10));
  };
  await Promise.all(Array.from({ length: lanes }, (_, lane) => loop(lane)));
}

/** Keeps `count` connections open; each is begun again when it ends. */
export async function keepOpen(
  count: number,
  signal: AbortSignal,
  open: (index: number) => Socket,
): Promise<void> {
  await loops(count, signal, async (lane) => {
    const socket = open(lane);
    await new Promise((resolve) => {
      socket.once("close", resolve);
      signal.addEventListener("abort", resolve, { once: true });
    });
    socket.destroy();
    await delay(20);
  });
}
