import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import type { FastifyBaseLogger } from "fastify";
import type { RawData, WebSocket } from "ws";
import type { Conversations } from "../../conversations/api.ts";
import type { EventLog } from "../../store/event-log.ts";
import { visibleConversation } from "../routes/account/conversation-access.ts";
import { type AuthenticatedSocket, rejectSocket } from "./authenticate.ts";
import { type FollowerSink, followEvents } from "./follow-events.ts";
import type { SocketTarget } from "./handshake.ts";
import { Inbox } from "./inbox.ts";
import { movedClose } from "./moved.ts";
import type { OutboxLimits } from "./outbox.ts";
import { type FollowProtocol, makeEventProtocol, makeSessionProtocol } from "./protocols.ts";
import { StateReceipts } from "./state-receipts.ts";

export interface EventSocketDeps {
  conversations: Conversations;
  events: EventLog;
  scheduler: EventLoopScheduler;
  logger: FastifyBaseLogger;
}

/** Maximum sockets and event streams of a user. */
export const maxFollowers = 2_000;

export interface EventSocketLimits extends OutboxLimits {
  /** Maximum frame from a client, bytes. */
  maxInboundBytes: number;
  /** Sockets per user. A slow client holds about 256 KiB; everything else that waits is shared. */
  quota: KeyedSemaphore;
}

/** Replaces the conversations for read-only keys. */
const readOnlyTarget = {
  send: () => Promise.reject(new PlatformError("KeyReadOnlyOnSocket")),
};

/**
 * Serves a socket to `/sockets/events/{conversation}` (agent-server.md section 6.1) or
 * `/sockets/session/{conversation}` (agent-server-1.58.md section 6.4). Closes with
 * 4004 (no such conversation, or it was deleted), 4001 (the key ended), 1012 (another node has the
 * conversation now), 1013 (client too slow, or too many sockets of the user).
 */
export async function serveEventSocket(
  { socket, connection, caller, credential }: AuthenticatedSocket,
  { kind, conversation, resend }: Extract<SocketTarget, { kind: "events" | "session" }>,
  services: EventSocketDeps,
  limits: EventSocketLimits,
): Promise<void> {
  const { conversations, logger } = services;
  const id = (await visibleConversation(conversations, caller, conversation))?.id;
  // A socket that has closed meanwhile tells nobody that it leaves.
  if (socket.readyState !== socket.OPEN) return;
  if (id === undefined) return socket.close(4004, "Conversation not found");
  const leave = limits.quota.tryAcquire([caller.userId]);
  if (!leave) return socket.close(1013, "Too many sockets: close others first");
  socket.on("close", leave);
  const failed = (error: unknown) => {
    logger.error({ err: error }, "a socket failed");
    socket.close(1011, "Internal Server Error");
  };
  const protocol = kind === "session" ? makeSessionProtocol(resend) : makeEventProtocol(resend);
  const sink = makeSocketSink(socket, connection, protocol);
  const reader = followEvents(sink, protocol.encode, id, resend, services, limits).then((outbox) => {
    if (!outbox) return () => {};
    const fail = (code: string, detail: string) => outbox.sendNow(protocol.makeError(code, detail));
    const target = caller.readOnly ? readOnlyTarget : conversations.commands;
    const isAllowed = async () => {
      if (await credential()) return true;
      rejectSocket(socket);
      return false;
    };
    const inbox = new Inbox({ target, conversationId: id, isAllowed, fail, logger });
    return (data: RawData, isBinary: boolean) => {
      if (isBinary) return fail("InvalidFrame", "Binary frames are not supported; send JSON text");
      const text = String(data);
      // A page in a browser sees no pings, and could not tell a broken connection from a quiet one.
      if (text === '{"type":"ping"}') return outbox.sendNow({ json: '{"type":"pong"}' });
      if (Buffer.byteLength(text) > limits.maxInboundBytes) {
        return fail("FrameTooLarge", `A frame may have at most ${limits.maxInboundBytes} bytes`);
      }
      inbox.receive(text);
    };
  });
  reader.catch(failed);
  // Frames that arrive early wait until the state is sent.
  socket.on("message", (data, isBinary) => void reader.then((read) => read(data, isBinary)).catch(failed));
}

/** Codes after which clients connect again: the connection broke, or the client was too slow. */
const lossCodes = [1006, 1013];

function makeSocketSink(
  socket: WebSocket,
  connection: Duplex,
  { makeOpening, toCursor }: FollowProtocol,
): FollowerSink {
  const receipts = new StateReceipts(socket);
  let corked = false;
  const uncork = () => {
    corked = false;
    connection.uncork();
  };
  return {
    get open() {
      return socket.readyState === socket.OPEN;
    },
    get bufferedBytes() {
      return socket.bufferedAmount;
    },
    write(bytes, taken) {
      // Sends the frames of one tick together: a resend has many.
      if (!corked) {
        corked = true;
        connection.cork();
        process.nextTick(uncork);
      }
      socket.send(bytes, { binary: false }, taken);
    },
    expectState: (frame) => receipts.expect(frame),
    settle: () => receipts.settle(),
    echo: () => receipts.echo(),
    disconnect: (lastSeq) => socket.close(1013, `Too slow: reconnect with after_seq=${toCursor(lastSeq)}`),
    ...(makeOpening && { makeOpening }),
    fail: () => socket.close(1011, "Internal Server Error"),
    deleted: () => socket.close(4004, "The conversation has been deleted"),
    moved: () => socket.close(...movedClose),
    onClose: (listener) => socket.once("close", (code) => listener(lossCodes.includes(code))),
  };
}
