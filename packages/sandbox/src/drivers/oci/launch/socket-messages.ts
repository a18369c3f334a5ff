import { loopbackListener, tcpSocket } from "../../../kernel/sockets.ts";

/** A socket that listens on a port of 127.0.0.1, or one that is to be connected over IPv4 or IPv6. */
export type SocketKind = { listen: number } | { connect: 4 | 6 };

/** What the thread of sockets is asked: `network` is an open network namespace of this process. */
export interface SocketRequest {
  number: number;
  network: number;
  kind: SocketKind;
}

export type SocketAnswer = { number: number } & (
  | { fd: number }
  | { error: string; code: string | undefined }
);

/** Makes a socket in the network namespace of the calling thread. Throws EADDRINUSE. */
export function socketOf(kind: SocketKind): number {
  return "listen" in kind ? loopbackListener(kind.listen) : tcpSocket(kind.connect);
}
