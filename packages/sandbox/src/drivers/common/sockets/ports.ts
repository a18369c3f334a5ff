import { closeSync, fstatSync, openSync, statSync } from "node:fs";
import { createServer, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { openSocket } from "./open-socket.ts";
import type { SocketKind } from "./socket-messages.ts";

/**
 * True when a process still belongs to the sandbox. It is called while the process's network
 * namespace is open, because the kernel may have given the id to another process.
 */
export type IsMember = (pid: number) => boolean;

/** Loopback answers at once, or after the kernel's first retry, which follows after a second. */
const connectTimeoutMs = 2_500;

/**
 * Connects to a loopback port of the network namespace of a process, by IPv4, else by IPv6.
 * Throws SandboxNotRunning when the process has ended, PortUnreachable when nothing accepts.
 */
export async function connectInside(pid: number, port: number, isMember?: IsMember): Promise<Socket> {
  try {
    return await connectTo(pid, 4, port, isMember);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ECONNREFUSED") throw unreachable(port, error);
  }
  try {
    return await connectTo(pid, 6, port, isMember);
  } catch (error) {
    throw unreachable(port, error);
  }
}

export interface ListenOptions {
  isMember?: IsMember | undefined;
  /** Starts the loopback interface, which a new network namespace has stopped. */
  raise?: boolean;
}

/**
 * Listens on 127.0.0.1 of the network namespace of a process. The open socket keeps the namespace
 * alive. Throws SandboxNotRunning when the process has ended, PortUnreachable when the port is in
 * use.
 */
export async function listenInside(
  pid: number,
  port: number,
  accept: (connection: Duplex) => void,
  { isMember, raise = false }: ListenOptions = {},
): Promise<{ close(): void }> {
  const fd = await socketInside(pid, isMember, { listen: port, raise }).catch(
    (cause: NodeJS.ErrnoException) => {
      if (cause.code !== "EADDRINUSE") throw cause;
      throw new PlatformError("PortInUse", { port }, { cause });
    },
  );
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (connection) => {
    connection.on("error", () => connection.destroy());
    accept(connection);
  });
  return new Promise((resolve, reject) => {
    server.once("error", (error) => {
      closeSync(fd);
      reject(error);
    });
    server.listen({ fd }, () => {
      server.removeAllListeners("error");
      // Accepting may fail when no descriptors are free; later connections may succeed.
      server.on("error", () => {});
      resolve({ close: () => void server.close() });
    });
  });
}

async function connectTo(
  pid: number,
  family: 4 | 6,
  port: number,
  isMember: IsMember | undefined,
): Promise<Socket> {
  const fd = await socketInside(pid, isMember, { connect: family });
  const socket = new Socket({ fd, allowHalfOpen: true });
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => {
      clearTimeout(timer);
      socket.destroy();
      reject(error);
    };
    const timer = setTimeout(
      () => fail(Object.assign(new Error("connect"), { code: "ETIMEDOUT" })),
      connectTimeoutMs,
    );
    socket.once("error", fail);
    socket.connect({ port, host: family === 4 ? "127.0.0.1" : "::1" }, () => {
      clearTimeout(timer);
      socket.setNoDelay();
      socket.off("error", fail);
      resolve(socket);
    });
  });
}

/** A socket in the network namespace of a process; the caller owns the descriptor. */
async function socketInside(pid: number, isMember: IsMember | undefined, kind: SocketKind): Promise<number> {
  const network = openNetwork(pid, isMember);
  try {
    return await openSocket(network, kind);
  } finally {
    closeSync(network);
  }
}

function openNetwork(pid: number, isMember: IsMember | undefined): number {
  const gone = (cause?: unknown) => new PlatformError("SandboxNetworkGone", { cause });
  let network: number;
  try {
    network = openSync(`/proc/${pid}/ns/net`, "r");
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) throw gone(error);
    throw error;
  }
  if (fstatSync(network).ino !== statSync("/proc/self/ns/net").ino && isMember?.(pid) !== false)
    return network;
  closeSync(network);
  throw gone();
}

function unreachable(port: number, cause: unknown): unknown {
  if (cause instanceof PlatformError) return cause;
  const timedOut = (cause as NodeJS.ErrnoException).code === "ETIMEDOUT";
  return new PlatformError(timedOut ? "PortNotAccepting" : "PortNotListening", { port }, { cause });
}
