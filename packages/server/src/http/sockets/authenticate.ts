import type { RawData, WebSocket } from "ws";
import { parseJson } from "../server/json.ts";
import type { Principal } from "../server/principal.ts";

/** Asks anew whom a socket's key or login stands for: it may end while the socket is open. */
export type Credential = () => Principal | undefined;

export interface AuthenticateOptions {
  /** Whom the handshake's keys or cookie stand for. */
  byHandshake: Credential;
  /** Whom a key stands for that a frame brings. */
  byKey: (key: string) => Principal | undefined;
  /** Time for the auth frame, ms. */
  authMs: number;
  /** How often it is looked whether the key is still valid, ms. */
  checkMs: number;
  /** Serves the socket of a caller who is known. It gets every frame from then on. */
  serve: (caller: Principal, credential: Credential) => void;
  onError: (error: unknown) => void;
}

/**
 * Finds out whose socket this is (agent-server.md section 6.1): where the handshake's credential opens nothing, the first frame has to bring a key.
 * Closes with 4001 where no valid key comes in time, or once it has ended; with 1011 where `serve` throws.
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
    const check = setInterval(() => guarded(() => credential() || refuseSocket(socket)), checkMs);
    socket.once("close", () => clearInterval(check));
    options.serve(caller, credential);
  };

  const first = (deadline: NodeJS.Timeout, data: RawData, isBinary: boolean) =>
    guarded(() => {
      clearTimeout(deadline);
      const key = isBinary ? undefined : readKey(String(data));
      const byFrame: Credential = () => (key === undefined ? undefined : byKey(key));
      const caller = byFrame();
      if (caller) serve(caller, byFrame);
      else refuseSocket(socket);
    });

  const caller = byHandshake();
  if (caller) return guarded(() => serve(caller, byHandshake));
  const deadline = setTimeout(() => refuseSocket(socket), authMs);
  socket.once("close", () => clearTimeout(deadline));
  socket.once("message", (data, isBinary) => first(deadline, data, isBinary));
}

/** Ends a socket whose caller is not known, or not any more. */
export function refuseSocket(socket: WebSocket): void {
  socket.close(4001, "Authentication failed");
}

/** The key of a `{"type":"auth","session_api_key":…}` frame, undefined for any other. */
export function readAuthKey(frame: unknown): string | undefined {
  const { type, session_api_key: key } = (frame ?? {}) as Record<string, unknown>;
  return type === "auth" && typeof key === "string" ? key : undefined;
}

function readKey(text: string): string | undefined {
  try {
    return readAuthKey(parseJson(text));
  } catch {
    return undefined;
  }
}
