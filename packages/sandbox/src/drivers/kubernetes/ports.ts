import { constants } from "node:os";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import type { Connections } from "./connections.ts";
import { HelperError } from "./protocol.ts";
import type { Resident } from "./resident.ts";

/**
 * Delay before the first attempt to restore a lost connection, ms. It doubles with each failure.
 */
const minBackoffMs = 100;
/** Maximum delay between two attempts to restore a lost connection, ms. */
const maxBackoffMs = 5_000;

interface Listening {
  port: number;
  accept: (connection: Duplex) => void;
  /** Listener on the present connection; undefined while there is no connection. */
  open: { close(): void } | undefined;
}

/**
 * Connects to TCP ports inside pods and listens on them. After the loss of a connection to a
 * running pod, it makes the listeners of the pod again.
 */
export class Ports {
  readonly #connections: Connections;
  readonly #listenings = new Map<string, Set<Listening>>();
  #isClosed = false;

  constructor(connections: Connections) {
    this.#connections = connections;
  }

  async connect(id: string, port: number): Promise<Duplex> {
    const { resident, isPaused } = await this.#connections.get(id);
    if (isPaused) throw new PlatformError("SandboxPaused", { id });
    return await resident.connect(port).catch((error: unknown) => {
      throw toPortError(error, port);
    });
  }

  async listen(id: string, port: number, accept: (connection: Duplex) => void): Promise<{ close(): void }> {
    const { resident } = await this.#connections.get(id);
    const open = await resident.listen(port, accept).catch((error: unknown) => {
      throw toPortError(error, port);
    });
    const listening: Listening = { port, accept, open };
    const own = this.#listenings.get(id) ?? new Set();
    if (own.size === 0) {
      this.#listenings.set(id, own);
      this.#watch(id, resident, own);
    }
    own.add(listening);
    return {
      close: () => {
        own.delete(listening);
        listening.open?.close();
      },
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#listenings.clear();
  }

  #watch(id: string, resident: Resident, own: Set<Listening>): void {
    resident.onEnd(() => {
      for (const one of own) one.open = undefined;
      void this.#restore(id, own);
    });
  }

  async #restore(id: string, own: Set<Listening>): Promise<void> {
    for (let backoffMs = minBackoffMs; !this.#isClosed && own.size > 0; backoffMs *= 2) {
      await delay(Math.min(backoffMs, maxBackoffMs), undefined, { ref: false });
      try {
        const { resident } = await this.#connections.get(id);
        for (const one of own) one.open ??= await resident.listen(one.port, one.accept);
        return this.#watch(id, resident, own);
      } catch (error) {
        const { code } = error as { code?: string };
        if (code === "SandboxNotFound" || code === "SandboxNotRunning") break;
      }
    }
    own.clear();
    if (this.#listenings.get(id) === own) this.#listenings.delete(id);
  }
}

function toPortError(error: unknown, port: number): PlatformError {
  if (!(error instanceof HelperError)) return new PlatformError("SandboxNetworkGone", { cause: error });
  const { EADDRINUSE, ETIMEDOUT } = constants.errno;
  const key =
    error.errno === EADDRINUSE
      ? "PortInUse"
      : error.errno === ETIMEDOUT
        ? "PortNotAccepting"
        : "PortNotListening";
  return new PlatformError(key, { port }, { cause: error });
}
