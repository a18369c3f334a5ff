import { closeSync, fstatSync, openSync, statSync } from "node:fs";
import { createServer, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { makeSocket } from "../oci/launch/socket-maker.ts";
import type { SocketKind } from "../oci/launch/socket-messages.ts";

/**
 * Says whether a process still belongs to the sandbox. It is asked while its network namespace is held: an id that the kernel has given to
 * another process meanwhile would lead elsewhere.
 */
export type IsMember = (pid: number) => boolean;

/** Loopback answers at once, or after the kernel's first retry, which comes after a second. */
const connectTimeoutMs = 2_500;

/**
 * Connects to a port on the loopback addresses of the network namespace of a process. IPv4 goes first, then IPv6.
 * Throws SandboxNotRunning when the process is gone, PortUnreachable when nothing takes the connection.
 */
export async function connectInside(pid: number, port: number, isMember?: IsMember): Promise<Socket> {
  try {
    return await connected(pid, 4, port, isMember);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ECONNREFUSED") throw unreachable(port, error);
  }
  try {
    return await connected(pid, 6, port, isMember);
  } catch (error) {
    throw unreachable(port, error);
  }
}

/**
 * Listens on 127.0.0.1 of the network namespace of a process; the socket is this process's own. It keeps the namespace alive until it is closed.
 * Throws SandboxNotRunning when the process is gone, PortUnreachable when the port is taken.
 */
export async function listenInside(
  pid: number,
  port: number,
  accept: (connection: Duplex) => void,
  isMember?: IsMember,
): Promise<{ close(): void }> {
  const fd = await socketInside(pid, isMember, { listen: port }).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== "EADDRINUSE") throw cause;
    throw new PlatformError("PortUnreachable", `Port ${port} inside the sandbox is in use.`, { cause });
  });
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
      // Taking a connection may fail for want of descriptors; the next one is tried anew.
      server.on("error", () => {});
      resolve({ close: () => void server.close() });
    });
  });
}

/** Listeners by sandbox: none outlives its sandbox's processes, whose network it would keep alive. */
export class Listeners {
  readonly #open = new Map<string, Set<{ close(): void }>>();

  add(id: string, listener: { close(): void }): { close(): void } {
    const all = this.#open.get(id) ?? new Set();
    this.#open.set(id, all);
    const entry = {
      close: () => {
        listener.close();
        all.delete(entry);
        if (all.size === 0 && this.#open.get(id) === all) this.#open.delete(id);
      },
    };
    all.add(entry);
    return entry;
  }

  /** Closes the listeners of a sandbox; without an id all. */
  close(id?: string): void {
    for (const key of id === undefined ? [...this.#open.keys()] : [id])
      for (const { close } of [...(this.#open.get(key) ?? [])]) close();
  }
}

async function connected(
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
    return await makeSocket(network, kind);
  } finally {
    closeSync(network);
  }
}

function openNetwork(pid: number, isMember: IsMember | undefined): number {
  const gone = (cause?: unknown) =>
    new PlatformError("SandboxNotRunning", "The processes of the sandbox have ended; start it again.", {
      cause,
    });
  let network: number;
  try {
    network = openSync(`/proc/${pid}/ns/net`, "r");
  } catch (error) {
    // The process ended between two looks at it.
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
  const { code } = cause as NodeJS.ErrnoException;
  const reason =
    code === "ETIMEDOUT"
      ? `The program on port ${port} inside the sandbox takes no connections.`
      : `Nothing listens on port ${port} inside the sandbox: start a server there on 127.0.0.1 or 0.0.0.0.`;
  return new PlatformError("PortUnreachable", reason, { cause });
}
