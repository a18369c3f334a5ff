import { PlatformError } from "@sandpiper/core/errors";
import type { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import { cleaned } from "@sandpiper/core/strip-unknown-fields";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { Bash } from "@sandpiper/sandbox/shell/commands/api";
import { ExecuteBashRequest } from "@sandpiper/wire";
import type { FastifyBaseLogger } from "fastify";
import { Compile } from "typebox/compile";
import type { RawData, WebSocket } from "ws";
import { sandboxId } from "../routes/v1/sandboxes.ts";
import { InvalidInput } from "../server/invalid-input.ts";
import { parseJson } from "../server/json.ts";
import type { Principal } from "../server/principal.ts";
import { issuesOf } from "../server/validation.ts";
import { type Credential, readAuthKey, refuseSocket } from "./authenticate.ts";
import { serverErrorFrame } from "./frames.ts";
import { fitFrame } from "./shorten.ts";

export interface BashSocketServices {
  bash: Bash;
  sandboxes: Sandboxes;
  logger: FastifyBaseLogger;
}

export interface BashSocketLimits {
  places: KeyedSemaphore;
  /** Largest frame that is taken from a client, bytes. */
  inboundBytes: number;
  /** Above this many bytes on their way to a client, no more events are read for it. */
  high: number;
  /** A client that takes nothing for this long is cut off, ms. */
  stallMs: number;
}

const requests = Compile(ExecuteBashRequest);

/**
 * Serves the socket of a caller to `/sockets/bash-events` (agent-server.md section 6.2): events of a sandbox's commands as they are stored, with
 * `resend_mode=all` from the oldest on; a frame starts a command. What a slow client has not taken yet stays in the store, so nothing is
 * queued for it. Closes with 4004 (no such sandbox), 1008 (wrong query), 1013 (too slow, or too many sockets of the user).
 */
export function serveBashSocket(
  socket: WebSocket,
  query: URLSearchParams,
  caller: Principal,
  credential: Credential,
  services: BashSocketServices,
  limits: BashSocketLimits,
): void {
  const mode = query.get("resend_mode");
  if (mode !== null && mode !== "all") return socket.close(1008, "resend_mode: Input should be 'all'");
  const inQuery = query.get("sandbox_id");
  const named = caller.sandboxId ?? (inQuery === null ? undefined : sandboxId(inQuery));
  if (named === undefined)
    return socket.close(4004, "Name the sandbox: send its session key, or sandbox_id in the query");
  const row = services.sandboxes.get(caller.userId, named);
  if (!row) return socket.close(4004, "Sandbox not found");
  const leave = limits.places.tryAcquire([caller.userId]);
  if (!leave) return socket.close(1013, "Too many sockets: close others first");
  socket.once("close", leave);

  const fail = (error: unknown) => socket.send(errorFrame(error, services.logger));
  socket.on("message", (data: RawData, isBinary: boolean) => {
    if (!credential()) return refuseSocket(socket);
    const text = isBinary ? "" : String(data);
    const tooLarge = Buffer.byteLength(text) > limits.inboundBytes;
    if (tooLarge)
      return socket.send(
        serverErrorFrame("FrameTooLarge", `A frame may have at most ${limits.inboundBytes} bytes`),
      );
    startCommand(text, caller, row, services).catch(fail);
  });
  const sender = new EventSender(socket, row.id, services, limits);
  sender.begin(mode === "all").catch((error) => {
    fail(error);
    socket.close(1011, "Internal Server Error");
  });
  const unwatch = services.sandboxes.onChange((change) => {
    if (change.id === row.id && "removed" in change) socket.close(4004, "The sandbox has been deleted");
  });
  socket.once("close", unwatch);
}

/** Throws what is told to the client. */
async function startCommand(
  text: string,
  caller: Principal,
  { id }: SandboxRow,
  { bash, sandboxes }: BashSocketServices,
): Promise<void> {
  const frame = parseJson(text);
  if (readAuthKey(frame) !== undefined) return;
  if (!requests.Check(frame)) throw new InvalidInput(issuesOf(requests.Errors(frame), "frame"));
  if (caller.readOnly)
    throw new PlatformError("ReadOnlyKey", "This key is read-only: the socket only follows.");
  const row = sandboxes.get(caller.userId, id);
  if (!row) throw new PlatformError("SandboxNotFound", "Sandbox not found");
  await bash.start(row, cleaned(requests.Type(), frame) as ExecuteBashRequest);
}

function errorFrame(error: unknown, logger: FastifyBaseLogger): string {
  if (error instanceof InvalidInput) return serverErrorFrame("InvalidFrame", error.message);
  if (error instanceof PlatformError && error.status !== 500)
    return serverErrorFrame(error.code, error.message);
  logger.error({ err: error }, "a socket frame failed");
  return serverErrorFrame("InternalServerError", "Internal Server Error");
}

/** Sends the events of a sandbox in order, at the pace of the client: one at a time is read from the store and sent. */
class EventSender {
  readonly #socket: WebSocket;
  readonly #sandboxId: string;
  readonly #bash: Bash;
  readonly #logger: FastifyBaseLogger;
  readonly #limits: BashSocketLimits;
  /** The place of the last event that was sent. */
  #sentTo = 0;
  #running = false;
  #more = false;

  constructor(
    socket: WebSocket,
    sandboxId: string,
    { bash, logger }: BashSocketServices,
    limits: BashSocketLimits,
  ) {
    this.#socket = socket;
    this.#sandboxId = sandboxId;
    this.#bash = bash;
    this.#logger = logger;
    this.#limits = limits;
  }

  async begin(all: boolean): Promise<void> {
    if (!all) this.#sentTo = await this.#bash.newest(this.#sandboxId);
    const unfollow = this.#bash.follow(this.#sandboxId, () => this.#look());
    this.#socket.once("close", unfollow);
    if (this.#socket.readyState !== this.#socket.OPEN) unfollow();
  }

  #look(): void {
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
            fitFrame(json) ?? serverErrorFrame("FrameTooLarge", "An event is too large; read it over REST");
          if (!(await this.#write(frame))) return this.#cutOff();
          this.#sentTo = micros;
          this.#more = true;
        }
      }
    } finally {
      // In the turn in which there is nothing more: what comes a moment later has to begin again.
      this.#running = false;
    }
  }

  #cutOff(): void {
    this.#logger.warn({ sandbox: this.#sandboxId }, "a slow socket was cut off");
    this.#socket.close(1013, "Too slow: reconnect with resend_mode=all");
  }

  /** Resolves when the client has taken enough to go on; false when it takes nothing. */
  async #write(json: string): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#socket.send(json, () => resolve(true));
    if (this.#socket.bufferedAmount <= this.#limits.high) return true;
    let waiting = this.#socket.bufferedAmount;
    const watch = setInterval(() => {
      if (this.#socket.bufferedAmount === waiting) resolve(false);
      waiting = this.#socket.bufferedAmount;
    }, this.#limits.stallMs);
    const taken = await promise;
    clearInterval(watch);
    return taken;
  }
}
