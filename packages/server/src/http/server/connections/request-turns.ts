import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { EventLoopScheduler, TimeSlicedQueue } from "@sandpiper/core/scheduling/event-loop-scheduler";

/** Requests that wait on one connection behind the one that is being answered. */
const maxWaiting = 8;

/** Bytes that wait on one connection to be parsed: a read of the system has at most half. */
const maxUnparsedBytes = 128 * 1024;

/**
 * Bytes that are read from one connection before the others have their turn. Node alone reads two
 * megabytes in one round of the event loop from a client that sends quickly.
 */
const maxReadBytes = 128 * 1024;

/** Bytes after which the parser stops at the end of a head, about the smallest eight requests. */
const pieceBytes = 256;
const headEnd = "\r\n\r\n";

/**
 * Lines that are parsed in one turn. A line costs a few microseconds where it is the length of a
 * piece of a body, and 64 KB may have ten thousand. Shorter bytes are not counted.
 */
const maxLines = 768;
const uncountedBytes = 1_536;
const lineEnd = "\r\n";

type Bytes = Buffer<ArrayBuffer>;

const nothing: Bytes = Buffer.alloc(0);

/** Where requests and handshakes of WebSockets wait; new connections are accepted first. */
export function requestQueue(scheduler: Pick<EventLoopScheduler, "queue">): TimeSlicedQueue {
  return scheduler.queue("requests");
}

/** Checks of whether the server is alive, which wait for nobody. */
const probe = /^\/(?:health|alive|ready)\/?(?:\?|$)/;

/**
 * Takes the requests of a connection one after the other and lets other work run between two of
 * them. Node alone parses everything that a client sends at once, and gives all requests to the
 * server before it looks at another connection.
 */
export class RequestTurns {
  readonly #queue: TimeSlicedQueue;
  readonly #connections = new WeakMap<Socket, Turns>();

  constructor(server: Server, scheduler: Pick<EventLoopScheduler, "queue">) {
    this.#queue = requestQueue(scheduler);
    const rest = (work: () => void) => this.#queue.add(work);
    server.on("connection", (socket) => this.#connections.set(socket, new Turns(socket, rest)));
  }

  /** Calls `serve` in the request's turn; never when the connection ends before. */
  take({ socket, url = "" }: IncomingMessage, response: ServerResponse, serve: () => void): void {
    const turns = this.#connections.get(socket);
    if (!turns) return serve();
    const begin = () => {
      if (socket.destroyed) return;
      response.once("close", () => {
        const next = turns.next();
        if (next) this.#queue.add(next);
      });
      serve();
    };
    if (!turns.enter(begin)) return;
    if (probe.test(url)) begin();
    else this.#queue.add(begin);
  }
}

/** The requests of one connection: parses no further while many wait. */
class Turns {
  readonly #socket: Socket;
  /** Gives bytes to Node's parser. */
  readonly #parse: (bytes: Bytes) => void;
  readonly #isUpgraded: () => boolean;
  readonly #waiting: (() => void)[] = [];
  #busy = false;
  #unparsed = nothing;
  /** The connection is paused here, and not by Node, which pauses for clients that do not read. */
  #paused = false;
  /** Much was read, or many lines were parsed: what follows waits for its turn. */
  #resting = false;
  /** Bytes that were read since the last rest. */
  #read = 0;
  readonly #rest: (work: () => void) => void;

  constructor(socket: Socket, rest: (work: () => void) => void) {
    this.#socket = socket;
    this.#rest = rest;
    const [parse] = socket.listeners("data");
    this.#parse = (bytes) => parse?.call(socket, bytes);
    // For an upgrade, Node removes its listener, which is then this one.
    const receive = (bytes: Bytes | string) => this.#receive(bytes as Bytes);
    const listener = Object.assign(receive, { listener: parse });
    if (parse) socket.off("data", parse as () => void).on("data", listener);
    this.#isUpgraded = () => !socket.rawListeners("data").includes(listener);
    // Node resumes it when a body is read.
    socket.on("resume", () => {
      this.#parseMore();
      if (this.#resting) this.#pause();
    });
  }

  /** Returns whether the request begins now; otherwise `next` returns it later. */
  enter(begin: () => void): boolean {
    if (this.#busy) this.#waiting.push(begin);
    else this.#busy = true;
    return this.#waiting.length === 0;
  }

  /** The request that follows when one has been answered. */
  next(): (() => void) | undefined {
    const next = this.#waiting.shift();
    this.#busy = next !== undefined;
    this.#goOn();
    return next;
  }

  #goOn(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#socket.resume();
  }

  #receive(bytes: Bytes): void {
    this.#unparsed = this.#unparsed.length > 0 ? Buffer.concat([this.#unparsed, bytes]) : bytes;
    if (this.#unparsed.length > maxUnparsedBytes) this.#socket.destroy();
    else this.#parseMore();
    this.#read += bytes.length;
    if (this.#read < maxReadBytes || this.#isUpgraded()) return;
    this.#read = 0;
    if (!this.#resting) this.#wait();
    this.#pause();
  }

  #pause(): void {
    if (this.#socket.isPaused() || this.#socket.destroyed) return;
    this.#paused = true;
    this.#socket.pause();
  }

  #parseMore(): void {
    const socket = this.#socket;
    while (this.#unparsed.length > 0 && !socket.destroyed && !socket.isPaused()) {
      if (this.#waiting.length >= maxWaiting || this.#resting) return this.#pause();
      const end = this.#unparsed.indexOf(headEnd, pieceBytes - headEnd.length);
      const whole = end < 0 ? this.#unparsed : this.#unparsed.subarray(0, end + headEnd.length);
      const piece = firstLines(whole);
      if (piece.length < whole.length) this.#wait();
      this.#unparsed = this.#unparsed.subarray(piece.length);
      this.#parse(piece);
      if (!this.#isUpgraded()) continue;
      // The new protocol reads them behind the head that Node hands over.
      if (this.#unparsed.length > 0) socket.push(this.#unparsed);
      this.#unparsed = nothing;
    }
  }

  #wait(): void {
    this.#resting = true;
    this.#rest(() => {
      this.#resting = false;
      if (this.#paused) this.#goOn();
      else this.#parseMore();
    });
  }
}

/** The bytes up to the end of the last line that may be parsed in one turn. */
function firstLines(bytes: Bytes): Bytes {
  if (bytes.length < uncountedBytes) return bytes;
  let end = 0;
  for (let lines = 0; lines < maxLines; lines++) {
    const next = bytes.indexOf(lineEnd, end);
    if (next < 0) return bytes;
    end = next + lineEnd.length;
  }
  return bytes.subarray(0, end);
}
