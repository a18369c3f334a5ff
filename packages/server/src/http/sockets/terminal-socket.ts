import { Transform } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { type InteractiveShell, openInteractiveShell } from "@sandpiper/sandbox/shell/interactive-shell";
import { exitCode } from "@sandpiper/sandbox/shell/run";
import type { FastifyBaseLogger } from "fastify";
import type { WebSocket } from "ws";
import { normalizeSandboxId } from "../routes/v1/sandboxes.ts";
import { type AuthenticatedSocket, type Credential, rejectSocket } from "./authenticate.ts";
import { movedClose } from "./moved.ts";
import { parseTerminalFrame, parseTerminalRequest, type TerminalRequest } from "./terminal-frames.ts";

export interface TerminalDeps {
  sandboxes: Sandboxes;
  /** Shells start one in each round of the event loop, because a start takes milliseconds. */
  scheduler: TurnScheduler;
  logger: FastifyBaseLogger;
}

export interface TerminalLimits {
  /** Open terminals per user. */
  terminals: KeyedSemaphore;
  /** A terminal with output within this time keeps its sandbox awake, ms. */
  busyMs: number;
}

/** Pauses reading the shell above this many unsent bytes for a slow client. */
const maxUnsentBytes = 256 * 1024;
/** Pauses reading the client above this many bytes that the shell has not read. */
const maxUnreadBytes = 64 * 1024;
const maxFrameBytes = 1024 * 1024;
/** Maximum length of a close reason, bytes. */
const maxReasonBytes = 123;

/**
 * Serves a socket to `/sockets/terminal`: a shell in a sandbox, which ends with the socket
 * (docs/clients/sandbox-access.md). Output is sent in binary frames. Closes with 1000 `exit N`
 * (the shell ended), 1001 (the sandbox was stopped), 4001 (the key does not allow it or ended),
 * 4004 (no such sandbox), 1008 (wrong query), 1009 (frame too large), 1011 (no shell; says why),
 * 1013 (too many terminals of the user).
 */
export async function serveTerminal(
  { socket, caller, credential }: Omit<AuthenticatedSocket, "connection">,
  query: URLSearchParams,
  services: TerminalDeps,
  limits: TerminalLimits,
): Promise<void> {
  if (caller.readOnly) return socket.close(4001, "This key is read-only: it opens no terminal");
  const request = parseTerminalRequest(query);
  if (typeof request === "string") return closeWith(socket, 1008, request);
  const named = caller.sandboxId ?? (request.sandboxId && normalizeSandboxId(request.sandboxId));
  if (named === undefined)
    return socket.close(4004, "Name the sandbox: send its session key, or sandbox_id in the query");
  const row = await services.sandboxes.get(caller.userId, named);
  // A socket that has closed meanwhile tells nobody that it leaves.
  if (socket.readyState !== socket.OPEN) return;
  if (!row) return socket.close(4004, "Sandbox not found");
  const leave = limits.terminals.tryAcquire([caller.userId]);
  if (!leave) return socket.close(1013, "Too many terminals: close others first");
  socket.once("close", leave);
  new TerminalSocket({ socket, credential }, row, request, services, limits.busyMs).serve();
}

class TerminalSocket {
  readonly #socket: WebSocket;
  readonly #credential: Credential;
  readonly #owner: { id: string; userId: string };
  readonly #request: TerminalRequest;
  readonly #services: TerminalDeps;
  readonly #busyMs: number;
  /** The client's input. Each chunk wakes a paused sandbox and counts as its use. */
  readonly #input: Transform;
  #size: { cols: number; rows: number } | undefined;
  #shell: InteractiveShell | undefined;
  #writtenAt = Number.NEGATIVE_INFINITY;

  constructor(
    { socket, credential }: Pick<AuthenticatedSocket, "socket" | "credential">,
    owner: { id: string; userId: string },
    request: TerminalRequest,
    services: TerminalDeps,
    busyMs: number,
  ) {
    this.#socket = socket;
    this.#credential = credential;
    this.#owner = owner;
    this.#request = request;
    this.#services = services;
    this.#busyMs = busyMs;
    this.#size = request.tty;
    this.#input = new Transform({
      highWaterMark: maxUnreadBytes,
      transform: (chunk, _encoding, done) =>
        void this.#ifAllowed(() => void this.#ensureRunning().then(() => done(null, chunk), done)),
      flush: (done) => void this.#ifAllowed(done),
    });
    this.#input.on("error", (error) => this.#fail(error));
  }

  serve(): void {
    const socket = this.#socket;
    const { sandboxes } = this.#services;
    const leave = sandboxes.acquire(this.#owner.id, {
      busy: () => performance.now() - this.#writtenAt < this.#busyMs,
      beforeStop: async () => {},
    });
    const unfollow = sandboxes.onChange((change) => {
      if (change.id !== this.#owner.id) return;
      if ("removed" in change) this.#close(4004, "The sandbox has been deleted");
      else if ("released" in change) this.#close(...movedClose);
      // A resize during the pause did not reach the shell.
      else if (change.status === "RUNNING") this.#resize();
    });
    socket.once("close", () => {
      leave();
      unfollow();
      this.#input.destroy();
      this.#shell?.hangUp();
    });
    socket.on("message", (data, isBinary) => this.#onFrame(data as Buffer, isBinary));
    this.#run().catch((error) => this.#fail(error));
  }

  /** Does what a frame asks for while its client may still ask; otherwise closes the socket. */
  async #ifAllowed(act: () => void): Promise<void> {
    try {
      if (await this.#credential()) return act();
      // Read the client's close frame.
      this.#socket.resume();
      rejectSocket(this.#socket);
    } catch (error) {
      this.#fail(error);
    }
  }

  async #ensureRunning() {
    return this.#services.sandboxes.running(this.#owner.id);
  }

  #onFrame(frame: Buffer, isBinary: boolean): void {
    if (frame.length > maxFrameBytes)
      return this.#close(1009, `A frame may have at most ${maxFrameBytes} bytes`);
    const message = parseTerminalFrame(frame, isBinary);
    if (message === undefined || this.#input.writableEnded) return;
    if (message === "eof") return void this.#input.end(() => this.#socket.resume());
    if ("cols" in message) {
      this.#size &&= message;
      return void this.#ifAllowed(() => this.#resize());
    }
    if (this.#input.write(message.input)) return;
    this.#socket.pause();
    this.#input.once("drain", () => this.#socket.resume());
  }

  #resize(): void {
    if (this.#size) this.#shell?.process.resize(this.#size.cols, this.#size.rows);
  }

  async #run(): Promise<void> {
    const sandbox = await this.#ensureRunning();
    await this.#services.scheduler.nextTurn("terminals");
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    const asked = this.#size;
    const shell = await openInteractiveShell(sandbox, { ...this.#request, tty: asked });
    if (this.#socket.readyState !== this.#socket.OPEN) return shell.hangUp();
    this.#shell = shell;
    if (this.#size !== asked) this.#resize();
    const { stdin, stdout, stderr, exit } = shell.process;
    this.#input.pipe(stdin);
    const readOut = Promise.all([this.#send(stdout), this.#send(stderr)]);
    const status = await exit;
    await readOut;
    const { id, userId } = this.#owner;
    const row = await this.#services.sandboxes.get(userId, id);
    if (row && row.status !== "RUNNING")
      return this.#close(1001, "The sandbox was stopped: connect again to wake it");
    this.#close(1000, `exit ${exitCode(status)}`);
  }

  /** Sends a stream to its end at the client's pace. */
  #send(stream: InteractiveShell["process"]["stdout"]): Promise<void> {
    const socket = this.#socket;
    const sent = () => {
      if (stream.isPaused() && socket.bufferedAmount <= maxUnsentBytes / 2) stream.resume();
    };
    stream.on("data", (chunk: Buffer) => {
      this.#writtenAt = performance.now();
      socket.send(chunk, { binary: true }, sent);
      if (socket.bufferedAmount > maxUnsentBytes) stream.pause();
    });
    stream.on("error", () => {});
    return new Promise((resolve) => {
      stream.once("close", resolve);
    });
  }

  #fail(error: unknown): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    if (!(error instanceof PlatformError) || error.status === 500) {
      this.#services.logger.error({ err: error, sandbox: this.#owner.id }, "a terminal failed");
      return this.#close(1011, "Internal Server Error");
    }
    this.#close(error.code === "SandboxNotFound" ? 4004 : 1011, error.message);
  }

  #close(code: number, reason: string): void {
    // Read the client's close frame.
    this.#socket.resume();
    closeWith(this.#socket, code, reason);
  }
}

/** Closes with a reason, truncated to the limit. */
function closeWith(socket: WebSocket, code: number, reason: string): void {
  let text = reason;
  while (Buffer.byteLength(text) > maxReasonBytes) text = `${text.slice(0, -2).trimEnd()}…`;
  socket.close(code, text);
}
