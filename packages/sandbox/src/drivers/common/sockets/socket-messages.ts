import { createTcpSocket, listenOnLoopback } from "../../../kernel/sockets.ts";

/** A socket that listens on a port of 127.0.0.1, or an unconnected one for IPv4 or IPv6. */
export type SocketKind = { listen: number } | { connect: 4 | 6 };

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
  return "listen" in kind ? listenOnLoopback(kind.listen) : createTcpSocket(kind.connect);
}
