import { call, native } from "./libc.ts";

const AF_INET = 2;
const AF_INET6 = 10;
const SOCK_STREAM = 1;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SO_REUSEADDR = 2;

const socket = native("int socket(int domain, int type, int protocol)");
const bind = native("int bind(int fd, const void *address, unsigned int length)");
const listen = native("int listen(int fd, int backlog)");
const setsockopt = native(
  "int setsockopt(int fd, int level, int name, const void *value, unsigned int length)",
);
const close = native("int close(int fd)");
const ioctl = native("int ioctl(int fd, unsigned long request, const void *value)");

const SIOCSIFFLAGS = 0x8914;
const IFF_UP_AND_RUNNING = 0x41;

/**
 * Creates a non-blocking TCP socket in the calling thread's network namespace. The caller closes
 * it.
 */
export function createTcpSocket(family: 4 | 6 = 4): number {
  return call("socket", () =>
    socket(family === 6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
  );
}

/** Creates a TCP socket that listens on 127.0.0.1. Throws EADDRINUSE. */
export function listenOnLoopback(port: number, backlog = 128): number {
  const fd = createTcpSocket();
  try {
    const on = Buffer.from(Int32Array.of(1).buffer);
    call("setsockopt", () => setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, on, on.length));
    const address = loopbackAddress(port);
    call("bind", () => bind(fd, address, address.length));
    call("listen", () => listen(fd, backlog));
    return fd;
  } catch (error) {
    close(fd);
    throw error;
  }
}

/** Starts the loopback interface of the calling thread's network namespace. */
export function raiseLoopback(): void {
  const fd = createTcpSocket();
  try {
    // `struct ifreq`: a name of 16 bytes, then the flags.
    const request = Buffer.alloc(40);
    request.write("lo", 0, "latin1");
    request.writeUInt16LE(IFF_UP_AND_RUNNING, 16);
    call("ioctl", () => ioctl(fd, SIOCSIFFLAGS, request));
  } finally {
    close(fd);
  }
}

/** `struct sockaddr_in` of 127.0.0.1 and a port. */
function loopbackAddress(port: number): Buffer {
  const address = Buffer.alloc(16);
  address.writeUInt16LE(AF_INET, 0);
  address.writeUInt16BE(port, 2);
  address.set([127, 0, 0, 1], 4);
  return address;
}
