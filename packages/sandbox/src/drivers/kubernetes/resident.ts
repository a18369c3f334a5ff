import type { Duplex } from "node:stream";
import { errorText } from "@sandpiper/core/errors";
import type { SandboxProcess } from "../../driver.ts";
import type { Channel, SendFrame } from "./channel.ts";
import type { ExecListener, ExecStream } from "./exec-stream.ts";
import {
  answer,
  encodeFile,
  encodeFolder,
  encodeFrame,
  encodePort,
  type Frame,
  FrameReader,
  type HelperCommand,
  HelperError,
  type PutFile,
  request,
} from "./protocol.ts";
import { ResidentProcess } from "./resident-process.ts";
import { ResidentSocket } from "./resident-socket.ts";

/** Maximum wait for the helper's first frame, ms. */
const helloTimeoutMs = 10_000;
/** Interval of pings, ms. Load balancers often cut a connection that is silent for a minute. */
const pingIntervalMs = 20_000;
/** Maximum wait for the answer to a ping, ms. */
const pingTimeoutMs = 15_000;
/** Lowest id of a channel that the helper opens. */
const firstHelperChannel = 0x4000_0000;
/** Maximum number of open connections from inside one sandbox to the server. */
const maxAccepted = 256;

export type OpenStream = (listener: ExecListener) => Promise<ExecStream>;

/**
 * The connection to the helper of one pod. It carries all commands and TCP connections of the pod.
 * The helper runs beside the sandbox's processes, so this class checks its frames as any input.
 */
export class Resident {
  readonly #channels = new Map<number, Channel>();
  readonly #listeners = new Map<number, (connection: Duplex) => void>();
  readonly #endListeners = new Set<() => void>();
  readonly #frames = new FrameReader();
  #stream: ExecStream | undefined;
  #reason: string | undefined;
  #onHello: () => void = () => {};
  #lastChannel = 0;
  #accepted = 0;
  #pings: NodeJS.Timeout | undefined;

  /**
   * Connects and waits until the helper answers. Rejects with the reason when the connection is
   * refused or ends.
   */
  static async open(openStream: OpenStream): Promise<Resident> {
    const resident = new Resident();
    const hello = new Promise<void>((resolve) => {
      resident.#onHello = resolve;
    });
    resident.#stream = await openStream({
      onOutput: (bytes) => resident.#receive(bytes),
      onEnd: (reason) => resident.#end(reason),
    });
    if (resident.#reason !== undefined) resident.#stream.close();
    const timer = setTimeout(() => resident.#end("the helper does not answer"), helloTimeoutMs);
    await hello;
    clearTimeout(timer);
    if (resident.#reason !== undefined) throw new Error(resident.#reason);
    resident.#pings = setInterval(() => resident.#ping(), pingIntervalMs).unref();
    return resident;
  }

  get isOpen(): boolean {
    return this.#reason === undefined;
  }

  onEnd(listener: () => void): void {
    if (this.isOpen) this.#endListeners.add(listener);
    else listener();
  }

  close(): void {
    this.#end("the connection was closed");
  }

  run(command: HelperCommand): SandboxProcess {
    const id = ++this.#lastChannel;
    const process = new ResidentProcess(this.#sender(id), command, () => this.#channels.delete(id));
    this.#channels.set(id, process);
    if (!this.isOpen) process.onLost();
    return process;
  }

  /** Connects to a loopback port. Rejects with HelperError. */
  async connect(port: number): Promise<Duplex> {
    const id = ++this.#lastChannel;
    await this.#ask(id, request.connect, encodePort(port));
    return this.#openSocket(id, () => {});
  }

  /** Listens on a loopback port. Rejects with HelperError. */
  async listen(port: number, accept: (connection: Duplex) => void): Promise<{ close(): void }> {
    const id = ++this.#lastChannel;
    this.#listeners.set(id, accept);
    try {
      await this.#ask(id, request.listen, encodePort(port));
    } catch (error) {
      this.#listeners.delete(id);
      throw error;
    }
    return {
      close: () => {
        if (this.#listeners.delete(id)) this.#sender(id)(request.close);
      },
    };
  }

  async put(file: PutFile): Promise<void> {
    await this.#ask(++this.#lastChannel, request.put, encodeFile(file));
  }

  async makeFolder(folder: { path: string; uid: number; gid: number }): Promise<void> {
    await this.#ask(++this.#lastChannel, request.folder, encodeFolder(folder));
  }

  async freeze(): Promise<void> {
    await this.#ask(++this.#lastChannel, request.freeze);
  }

  async thaw(): Promise<void> {
    await this.#ask(++this.#lastChannel, request.thaw);
  }

  #ping(): void {
    const timer = setTimeout(() => this.#end("the helper does not answer"), pingTimeoutMs).unref();
    this.#ask(++this.#lastChannel, request.ping).then(
      () => clearTimeout(timer),
      () => clearTimeout(timer),
    );
  }

  #sender(id: number): SendFrame {
    return (type, payload) => this.#stream?.send(encodeFrame(type, id, payload));
  }

  /** Sends a request to the helper and waits for its result. */
  #ask(id: number, type: number, payload?: Buffer): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (work: () => void) => {
        this.#channels.delete(id);
        work();
      };
      this.#channels.set(id, {
        onFrame: (kind, bytes) =>
          settle(() => (kind === answer.done ? resolve() : reject(new HelperError(bytes)))),
        onLost: () => settle(() => reject(new Error(this.#reason))),
      });
      if (this.isOpen) this.#sender(id)(type, payload);
      else this.#channels.get(id)?.onLost();
    });
  }

  #openSocket(id: number, onEnd: () => void): ResidentSocket {
    const socket = new ResidentSocket(this.#sender(id), () => {
      this.#channels.delete(id);
      onEnd();
    });
    socket.on("error", () => {});
    this.#channels.set(id, socket);
    if (!this.isOpen) socket.onLost();
    return socket;
  }

  #receive(bytes: Buffer): void {
    if (!this.isOpen) return;
    const frames = this.#frames.read(bytes);
    if (!frames) return this.#end("the helper sent something else than frames");
    try {
      for (const frame of frames) this.#dispatch(frame);
    } catch (error) {
      this.#end(errorText(error));
    }
  }

  #dispatch({ type, channel, payload }: Frame): void {
    if (type === answer.hello) this.#onHello();
    else if (type === answer.accepted) this.#accept(channel, payload);
    else this.#channels.get(channel)?.onFrame(type, payload);
  }

  #accept(id: number, payload: Buffer): void {
    const accept = payload.length === 4 ? this.#listeners.get(payload.readUInt32BE()) : undefined;
    const isNew = id >= firstHelperChannel && !this.#channels.has(id);
    if (!accept || !isNew || this.#accepted >= maxAccepted) return this.#sender(id)(request.close);
    this.#accepted++;
    accept(
      this.#openSocket(id, () => {
        this.#accepted--;
      }),
    );
  }

  #end(reason: string): void {
    if (!this.isOpen) return;
    this.#reason = reason;
    clearInterval(this.#pings);
    this.#stream?.close();
    this.#onHello();
    for (const channel of [...this.#channels.values()]) channel.onLost();
    this.#channels.clear();
    this.#listeners.clear();
    for (const listener of this.#endListeners) listener();
  }
}
