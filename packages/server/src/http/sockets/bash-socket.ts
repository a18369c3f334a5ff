import { PlatformError } from "@sandpiper/core/errors";
import type { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import { stripUnknownFields } from "@sandpiper/core/strip-unknown-fields";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Bash } from "@sandpiper/sandbox/shell/commands/api";
import { ExecuteBashRequest } from "@sandpiper/wire";
import type { FastifyBaseLogger } from "fastify";
import { Compile } from "typebox/compile";
import type { RawData, WebSocket } from "ws";
import { normalizeSandboxId } from "../routes/v1/sandboxes.ts";
import { InvalidInput } from "../server/invalid-input.ts";
import { parseJson } from "../server/json.ts";
import type { Principal } from "../server/principal.ts";
import { toIssues } from "../server/validation.ts";
import { type AuthenticatedSocket, parseAuthKey, rejectSocket } from "./authenticate.ts";
import { makeErrorFrame } from "./frames.ts";
import { movedClose } from "./moved.ts";
import { fitFrame } from "./shorten.ts";

export interface BashSocketDeps {
  bash: Bash;
  sandboxes: Sandboxes;
  logger: FastifyBaseLogger;
}

export interface BashSocketLimits {
  quota: KeyedSemaphore;
  /** Maximum frame from a client, bytes. */
  maxInboundBytes: number;
  /** Stops reading events for a client with more than this many unsent bytes. */
  maxBufferedBytes: number;
  /** Disconnects a client that accepts no bytes for this long, ms. */
  stallTimeoutMs: number;
}

const requests = Compile(ExecuteBashRequest);

/**
 * Serves a socket to `/sockets/bash-events` (agent-server.md section 6.2): sends events of a
 * sandbox's commands as they are stored, with `resend_mode=all` from the oldest; a frame starts a
 * command. Events for a slow client stay in the store instead of a queue. Closes with 4004 (no such
 * sandbox), 1008 (wrong query), 1013 (too slow, or too many sockets of the user).
 */
export async function serveBashSocket(
  { socket, caller, credential }: AuthenticatedSocket,
  query: URLSearchParams,
  services: BashSocketDeps,
  limits: BashSocketLimits,
): Promise<void> {
  const mode = query.get("resend_mode");
  if (mode !== null && mode !== "all") return socket.close(1008, "resend_mode: Input should be 'all'");
  const inQuery = query.get("sandbox_id");
  const named = caller.sandboxId ?? (inQuery === null ? undefined : normalizeSandboxId(inQuery));
  if (named === undefined)
    return socket.close(4004, "Name the sandbox: send its session key, or sandbox_id in the query");
  // Watched before it is read, so that no deletion is missed.
  const unwatch = services.sandboxes.onChange((change) => {
    if (change.id !== named) return;
    if ("removed" in change) socket.close(4004, "The sandbox has been deleted");
    else if ("released" in change) socket.close(...movedClose);
  });
  socket.once("close", unwatch);
  const row = await services.sandboxes.get(caller.userId, named);
  // A socket that has closed meanwhile tells nobody that it leaves.
  if (socket.readyState !== socket.OPEN) return;
  if (!row) return socket.close(4004, "Sandbox not found");
  const leave = limits.quota.tryAcquire([caller.userId]);
  if (!leave) return socket.close(1013, "Too many sockets: close others first");
  socket.once("close", leave);

  const fail = (error: unknown) => socket.send(toErrorFrame(error, services.logger));
  const receive = async (data: RawData, isBinary: boolean) => {
    if (!(await credential())) return rejectSocket(socket);
    const text = isBinary ? "" : String(data);
    const tooLarge = Buffer.byteLength(text) > limits.maxInboundBytes;
    if (tooLarge)
      return socket.send(
        makeErrorFrame("FrameTooLarge", `A frame may have at most ${limits.maxInboundBytes} bytes`),
      );
    const request = parseCommand(text, caller);
    if (!request) return;
    const current = await services.sandboxes.get(caller.userId, row.id);
    if (!current) throw new PlatformError("SandboxUnknown");
    // The next frame does not wait for the start of this one's command.
    services.bash.start(current, request).catch(fail);
  };
  const sender = new EventSender(socket, row.id, services, limits);
  sender.start(mode === "all").catch((error) => {
    fail(error);
    socket.close(1011, "Internal Server Error");
  });
  receiveInOrder(socket, receive, fail);
}

/** Gives one frame after the other to `receive`; reads no more from a client whose frames wait. */
function receiveInOrder(
  socket: WebSocket,
  receive: (data: RawData, isBinary: boolean) => Promise<void>,
  fail: (error: unknown) => void,
): void {
  let waiting = 0;
  let tail = Promise.resolve();
  socket.on("message", (data, isBinary) => {
    if (waiting++ === 0) socket.pause();
    tail = tail
      .then(() => receive(data, isBinary))
      .catch(fail)
      .finally(() => --waiting === 0 && socket.resume());
  });
}

/** The command of a frame; undefined for an auth frame. Throws the errors that the client gets. */
function parseCommand(text: string, caller: Principal): ExecuteBashRequest | undefined {
  const frame = parseJson(text);
  if (parseAuthKey(frame) !== undefined) return undefined;
  if (!requests.Check(frame)) throw new InvalidInput(toIssues(requests.Errors(frame), "frame"));
  if (caller.readOnly) throw new PlatformError("KeyReadOnlyOnSocket");
  return stripUnknownFields(requests.Type(), frame) as ExecuteBashRequest;
}

function toErrorFrame(error: unknown, logger: FastifyBaseLogger): string {
  if (error instanceof InvalidInput) return makeErrorFrame("InvalidFrame", error.message);
  if (error instanceof PlatformError && error.status !== 500)
    return makeErrorFrame(error.code, error.message);
  logger.error({ err: error }, "a socket frame failed");
  return makeErrorFrame("InternalServerError", "Internal Server Error");
}

/** Sends a sandbox's events in order at the client's pace, reading each from the store. */
class EventSender {
  readonly #socket: WebSocket;
  readonly #sandboxId: string;
  readonly #bash: Bash;
  readonly #logger: FastifyBaseLogger;
  readonly #limits: BashSocketLimits;
  /** The position of the last sent event. */
  #sentTo = 0;
  #running = false;
  #more = false;

  constructor(
    socket: WebSocket,
    sandboxId: string,
    { bash, logger }: BashSocketDeps,
    limits: BashSocketLimits,
  ) {
    this.#socket = socket;
    this.#sandboxId = sandboxId;
    this.#bash = bash;
    this.#logger = logger;
    this.#limits = limits;
  }

  async start(all: boolean): Promise<void> {
    if (!all) this.#sentTo = await this.#bash.newest(this.#sandboxId);
    const unfollow = this.#bash.follow(this.#sandboxId, () => this.#wake());
    this.#socket.once("close", unfollow);
    if (this.#socket.readyState !== this.#socket.OPEN) unfollow();
  }

  #wake(): void {
    this.#more = true;
    if (this.#running) return;
    this.#running = true;
    this.#send().catch(() => this.#socket.close(1011, "Internal Server Error"));
  }

  async #send(): Promise<void> {
    try {
      while (this.#more) {
        this.#more = false;
        const events = await this.#bash.after(this.#sandboxId, this.#sentTo);
        for (const { micros, json } of events) {
          if (this.#socket.readyState !== this.#socket.OPEN) return;
          const frame =
            fitFrame(json) ?? makeErrorFrame("FrameTooLarge", "An event is too large; read it over REST");
          if (!(await this.#write(frame))) return this.#disconnect();
          this.#sentTo = micros;
          this.#more = true;
        }
      }
    } finally {
      // Reset in the same tick as the last check, so that an event that arrives later restarts the
      // loop.
      this.#running = false;
    }
  }

  #disconnect(): void {
    this.#logger.warn({ sandbox: this.#sandboxId }, "a slow socket was cut off");
    this.#socket.close(1013, "Too slow: reconnect with resend_mode=all");
  }

  /** Resolves when the client can take more, or with false when it is stalled. */
  async #write(json: string): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#socket.send(json, () => resolve(true));
    if (this.#socket.bufferedAmount <= this.#limits.maxBufferedBytes) return true;
    let waiting = this.#socket.bufferedAmount;
    const watch = setInterval(() => {
      if (this.#socket.bufferedAmount === waiting) resolve(false);
      waiting = this.#socket.bufferedAmount;
    }, this.#limits.stallTimeoutMs);
    const taken = await promise;
    clearInterval(watch);
    return taken;
  }
}
