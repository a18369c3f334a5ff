import type { FastifyBaseLogger } from "fastify";
import type { RawData, WebSocket } from "ws";
import type { Conversations } from "../../conversations/api.ts";
import { PlatformError } from "../../errors.ts";
import type { EventLog } from "../../store/event-log.ts";
import type { Authenticator, Principal } from "../auth.ts";
import { visibleConversation } from "../conversation-access.ts";
import { parseJson } from "../json.ts";
import { fullStateFrame, serverErrorFrame } from "./frames.ts";
import type { Handshake } from "./handshake.ts";
import { Inbox, readAuthKey } from "./inbox.ts";
import { Outbox, type OutboxLimits } from "./outbox.ts";
import type { Places } from "./places.ts";
import { resendEvents } from "./resend.ts";

export interface EventSocketServices {
  conversations: Conversations;
  events: EventLog;
  logger: FastifyBaseLogger;
  authenticator: Authenticator;
}

export interface EventSocketLimits extends OutboxLimits {
  /** Time for the auth frame, ms. */
  authMs: number;
  /** How often it is looked whether the key is still valid, beside each frame that the client sends, ms. */
  checkMs: number;
  /** Largest frame that is taken from a client, bytes. */
  inboundBytes: number;
  /** Sockets of each user: each may have some megabytes waiting for a slow client. */
  places: Places;
}

/** Asks anew whom a socket's key or login stands for: it may end while the socket is open. */
export type Credential = () => Principal | undefined;

/** In the place of the conversations for holders of a read-only key. */
const readOnlyTarget = {
  send: () => Promise.reject(new PlatformError("ReadOnlyKey", "This key is read-only: the socket only follows.")),
};

/**
 * Serves one accepted socket of `/sockets/events/{conversation}` (agent-server.md section 6.1). Where the handshake's
 * credential opens nothing, the first frame has to bring a key. Closes with 4001 (no valid key in time, or one that has ended), 4004 (no such conversation), 1013 (client too slow, or too many sockets of the user).
 */
export function serveEventSocket(
  socket: WebSocket,
  handshake: Handshake,
  credential: Credential,
  services: EventSocketServices,
  limits: EventSocketLimits,
): void {
  const { conversations, events, logger, authenticator } = services;
  const refuse = () => socket.close(4001, "Authentication failed");
  const guarded = (work: () => unknown) => {
    try {
      work();
    } catch (error) {
      logger.error({ err: error }, "a socket failed");
      socket.close(1011, "Internal Server Error");
    }
  };
  let take: (data: RawData, isBinary: boolean) => void;

  const authenticate = (data: RawData, isBinary: boolean) => {
    clearTimeout(deadline);
    const key = isBinary ? undefined : readKey(String(data));
    const byFrame = () => (key === undefined ? undefined : authenticator.byKey(key));
    const caller = byFrame();
    if (caller) subscribe(caller, byFrame);
    else {
      take = () => {};
      refuse();
    }
  };

  const subscribe = (caller: Principal, credential: Credential) => {
    take = () => {};
    const id = visibleConversation(conversations, caller, handshake.conversation)?.id;
    if (id === undefined) return socket.close(4004, "Conversation not found");
    const leave = limits.places.enter(caller.userId);
    if (!leave) return socket.close(1013, "Too many sockets: close others first");
    socket.on("close", leave);
    const outbox = new Outbox(socket, limits, (seq) => logger.warn({ conversationId: id, seq }, "a slow socket was cut off"));
    const fail = (code: string, detail: string) => outbox.now(serverErrorFrame(code, detail));
    const target = caller.readOnly ? readOnlyTarget : conversations;
    const inbox = new Inbox(target, id, ({ code, detail }) => fail(code, detail), logger);
    take = (data, isBinary) => {
      if (isBinary) return fail("InvalidFrame", "Binary frames are not supported; send JSON text");
      const text = String(data);
      if (Buffer.byteLength(text) > limits.inboundBytes) {
        return fail("FrameTooLarge", `A frame may have at most ${limits.inboundBytes} bytes`);
      }
      if (!credential()) return refuse();
      inbox.receive(text);
    };
    const check = setInterval(() => guarded(() => credential() || refuse()), limits.checkMs);
    socket.on("close", () => clearInterval(check));

    // Following begins before the end of the log is read, in one turn: every event is either in the resend or in a live frame.
    const unfollow = conversations.follow(id, (frame) => outbox.live(frame));
    socket.on("close", unfollow);
    outbox.now(fullStateFrame(conversations.fullState(id)));
    const { resend } = handshake;
    if (resend.mode === "none") return outbox.goLive(0);
    const upTo = events.lastSeq(id);
    const open = () => socket.readyState === socket.OPEN;
    resendEvents(events, id, resend, upTo, (seq, json) => outbox.resend(seq, json), open)
      .then(() => outbox.goLive(upTo))
      .catch((error: unknown) => {
        logger.error({ err: error, conversationId: id }, "a resend failed");
        socket.close(1011, "Internal Server Error");
      });
  };

  const deadline = setTimeout(refuse, limits.authMs);
  take = authenticate;
  socket.on("close", () => clearTimeout(deadline));
  socket.on("message", (data, isBinary) => {
    guarded(() => take(data, isBinary));
  });
  const principal = credential();
  if (principal) {
    clearTimeout(deadline);
    subscribe(principal, credential);
  }
}

function readKey(text: string): string | undefined {
  try {
    return readAuthKey(parseJson(text));
  } catch {
    return undefined;
  }
}
