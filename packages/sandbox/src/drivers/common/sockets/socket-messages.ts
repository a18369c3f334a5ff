import { createTcpSocket, listenOnLoopback, raiseLoopback } from "../../../kernel/sockets.ts";

/**
 * A socket that listens on a port of 127.0.0.1, or an unconnected one for IPv4 or IPv6. `raise`
 * first starts the loopback interface, which a new network namespace has stopped.
 */
export type SocketKind = { listen: number; raise?: boolean } | { connect: 4 | 6 };

/** `network` is an open network namespace of this process. */
export interface SocketRequest {
  number: number;
  network: number;
  kind: SocketKind;
}

export type SocketResult = { number: number } & (
  | { fd: number }
  | { error: string; code: string | undefined }
);

/** Creates a socket in the network namespace of the calling thread. Throws EADDRINUSE. */
export function createSocket(kind: SocketKind): number {
  if ("connect" in kind) return createTcpSocket(kind.connect);
  if (kind.raise) raiseLoopback();
  return listenOnLoopback(kind.listen);
}
