import type { Duplex } from "node:stream";
import type { RawData, WebSocket } from "ws";
import { parseJson } from "../server/json.ts";
import type { Principal } from "../server/principal.ts";

/** Resolves a socket's key or login again, because it may end while the socket is open. */
export type Credential = () => Principal | undefined;

/** A socket with its caller. */
export interface AuthenticatedSocket {
  socket: WebSocket;
  connection: Duplex;
  caller: Principal;
  credential: Credential;
}

export interface AuthenticateOptions {
  /** Resolves the handshake's keys or cookie. */
  byHandshake: Credential;
  /** Resolves a key from a frame. */
  byKey: (key: string) => Principal | undefined;
  /** Time for the auth frame, ms. */
  authMs: number;
  /** Interval of key checks, ms. */
  checkMs: number;
  /** Serves the socket of an authenticated caller; receives every later frame. */
  serve: (caller: Principal, credential: Credential) => void;
  onError: (error: unknown) => void;
}

/**
 * Authenticates a socket (agent-server.md section 6.1): by the handshake, else by a key in the
 * first frame. Closes with 4001 without a valid key in time or when the key ends, and with 1011
 * when `serve` throws.
 */
export function authenticateSocket(socket: WebSocket, options: AuthenticateOptions): void {
  const { byHandshake, byKey, authMs, checkMs, onError } = options;
  const guarded = (work: () => unknown) => {
    try {
      work();
    } catch (error) {
      onError(error);
      socket.close(1011, "Internal Server Error");
    }
  };

  const serve = (caller: Principal, credential: Credential) => {
    const check = setInterval(() => guarded(() => credential() || rejectSocket(socket)), checkMs);
    socket.once("close", () => clearInterval(check));
    options.serve(caller, credential);
  };

  const first = (deadline: NodeJS.Timeout, data: RawData, isBinary: boolean) =>
    guarded(() => {
      clearTimeout(deadline);
      const key = isBinary ? undefined : parseKeyFrame(String(data));
      const byFrame: Credential = () => (key === undefined ? undefined : byKey(key));
      const caller = byFrame();
      if (caller) serve(caller, byFrame);
      else rejectSocket(socket);
    });

  const caller = byHandshake();
  if (caller) return guarded(() => serve(caller, byHandshake));
  const deadline = setTimeout(() => rejectSocket(socket), authMs);
  socket.once("close", () => clearTimeout(deadline));
  socket.once("message", (data, isBinary) => first(deadline, data, isBinary));
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
