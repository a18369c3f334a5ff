import type { Duplex } from "node:stream";
import type { RawData, WebSocket } from "ws";
import { parseJson } from "../server/json.ts";
import type { Principal } from "../server/principal.ts";

/** Resolves a socket's key or login again, because it may end while the socket is open. */
export type Credential = () => Promise<Principal | undefined>;

/** A socket with its caller. */
export interface AuthenticatedSocket {
  socket: WebSocket;
  connection: Duplex;
  caller: Principal;
  credential: Credential;
}

export interface AuthenticateOptions {
  /** The caller of the handshake's keys or cookie; undefined: the first frame brings a key. */
  caller: Principal | undefined;
  /** Resolves the handshake's keys or cookie again. */
  byHandshake: Credential;
  /** Resolves a key from a frame. */
  byKey: (key: string) => Promise<Principal | undefined>;
  /** Time for the auth frame, ms. */
  authMs: number;
  /** Interval of key checks, ms. */
  checkMs: number;
  /**
   * Serves the socket of an authenticated caller; receives every later frame. It resolves in the
   * tick in which it begins to listen: earlier frames come then. `key`: that of the first frame.
   */
  serve: (caller: Principal, credential: Credential, key: string | undefined) => Promise<void>;
  onError: (error: unknown) => void;
}

/**
 * Authenticates a socket (agent-server.md section 6.1): by the handshake, else by a key in the
 * first frame. Closes with 4001 without a valid key in time or when the key ends, and with 1011
 * when `serve` throws.
 */
export function authenticateSocket(socket: WebSocket, options: AuthenticateOptions): void {
  const { byHandshake, byKey, authMs, checkMs, onError } = options;
  const guarded = async (work: () => Promise<void>) => {
    try {
      await work();
    } catch (error) {
      onError(error);
      socket.close(1011, "Internal Server Error");
    }
  };

  const serve = async (caller: Principal, credential: Credential, key?: string) => {
    if (socket.readyState !== socket.OPEN) return;
    const verify = async () => void ((await credential()) || rejectSocket(socket));
    const check = setInterval(() => void guarded(verify), checkMs);
    socket.once("close", () => clearInterval(check));
    await options.serve(caller, credential, key);
  };

  const first = async (data: RawData, isBinary: boolean) => {
    const key = isBinary ? undefined : parseKeyFrame(String(data));
    const byFrame: Credential = async () => (key === undefined ? undefined : byKey(key));
    const caller = await byFrame();
    if (caller) await serve(caller, byFrame, key);
    else rejectSocket(socket);
  };

  const holding = async (work: () => Promise<void>) => {
    const release = holdFrames(socket);
    await guarded(work);
    release();
  };

  const { caller } = options;
  if (caller) return void holding(() => serve(caller, byHandshake));
  const deadline = setTimeout(() => rejectSocket(socket), authMs);
  socket.once("close", () => clearTimeout(deadline));
  socket.once("message", (data, isBinary) => {
    clearTimeout(deadline);
    void holding(() => first(data, isBinary));
  });
}

/**
 * Keeps what a socket receives until the returned function is called, and reads no more from the
 * client: only what was read before, which is less than a buffer of the system, is kept.
 */
function holdFrames(socket: WebSocket): () => void {
  const held: [data: RawData, isBinary: boolean][] = [];
  const hold = (data: RawData, isBinary: boolean) => void held.push([data, isBinary]);
  socket.on("message", hold);
  socket.pause();
  return () => {
    socket.off("message", hold);
    for (const frame of held) socket.emit("message", ...frame);
    socket.resume();
  };
}

/** Closes a socket without a valid key. */
export function rejectSocket(socket: WebSocket): void {
  socket.close(4001, "Authentication failed");
}

/** The key of a `{"type":"auth","session_api_key":…}` frame; undefined for other frames. */
export function parseAuthKey(frame: unknown): string | undefined {
  const { type, session_api_key: key } = (frame ?? {}) as Record<string, unknown>;
  return type === "auth" && typeof key === "string" ? key : undefined;
}

function parseKeyFrame(text: string): string | undefined {
  try {
    return parseAuthKey(parseJson(text));
  } catch {
    return undefined;
  }
}
