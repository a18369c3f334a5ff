import { type Connection, path } from "../connection.ts";
import { RequestError } from "../errors.ts";
import { Events } from "../groups/events.ts";
import type { AppConversation, Event, StreamingDeltaEvent } from "../types.ts";
import { browserWindow, sleep } from "../wait.ts";
import { Backoff } from "./backoff.ts";
import { type Frame, FrameSocket } from "./frame-socket.ts";

export interface FollowOptions {
  /**
   * Sequence number after which events are wanted: 0 for all, which is the default; Infinity for
   * new ones only.
   */
  after?: number;
  /** Ends the iteration, which throws the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Time without a frame after which the follower asks whether the server is still there, ms. */
  silenceMs?: number;
  /** Longest time between two tries to connect, ms. */
  maxWaitMs?: number;
}

/** What a follower gives. */
export type Followed =
  /** A stored event. `cut`: its longest texts are cut; `client.events.get` has them all. */
  | { type: "event"; seq: number; event: Event; cut: boolean }
  /** A piece of an answer, whose event follows. A new connection may have missed pieces. */
  | { type: "delta"; delta: StreamingDeltaEvent }
  /** A changed field of the conversation's state, or `full_state` at the start of a connection. */
  | { type: "state"; key: string; value: unknown }
  /** `away`: there is no connection, and the next try is at `retryAt`, ms since 1970. */
  | { type: "connection"; state: "connecting" | "live" }
  | { type: "connection"; state: "away"; retryAt: number };

/** The execution status of a conversation, where what was followed tells it. */
export function executionStatus(followed: Followed): AppConversation["execution_status"] | undefined {
  if (followed.type !== "state") return undefined;
  const { key, value } = followed;
  if (key === "full_state") return (value as Pick<AppConversation, "execution_status">).execution_status;
  return key === "execution_status" ? (value as AppConversation["execution_status"]) : undefined;
}

/** Close codes after which the follower does not connect again. */
const ends: Readonly<
  Record<number, readonly [code: "Unauthorized" | "ConversationNotFound", status: number]>
> = {
  4001: ["Unauthorized", 401],
  4004: ["ConversationNotFound", 404],
};

/** Time for the answer whether the conversation may be followed, ms. */
const accessMs = 10_000;

/** A sequence number that is higher than that of any log. */
const endOfLog = 999_999_999_999_999;

/**
 * Follows a conversation for ever: stored events in the order of their numbers, each exactly once,
 * and what is live between them. It connects again, from the last number on, when the connection
 * breaks, the server restarts or the machine has slept. Throws `RequestError` when the key ends,
 * and when the conversation is unknown or deleted.
 */
export async function* follow(
  connection: Connection,
  conversation: string,
  { after = 0, signal, silenceMs = 20_000, maxWaitMs = 10_000 }: FollowOptions = {},
): AsyncGenerator<Followed, never> {
  const address = path`/sockets/events/${conversation}`;
  const backoff = new Backoff(maxWaitMs);
  let cursor = Math.min(after, endOfLog);
  for (;;) {
    signal?.throwIfAborted();
    yield { type: "connection", state: "connecting" };
    const socket = new FrameSocket(connection, `${address}?after_seq=${cursor}`, { signal, silenceMs });
    let isLive = false;
    try {
      for await (const frame of socket.frames()) {
        const { seq, cut = false, ...event } = await toWhole(connection, conversation, frame);
        if (!isLive) {
          isLive = true;
          backoff.begin();
          // The first frame has the number after which the server sends.
          cursor = seq ?? cursor;
          yield { type: "connection", state: "live" };
        } else if (seq !== undefined) {
          if (seq <= cursor) continue;
          cursor = seq;
          backoff.progress();
        }
        if (event.kind === "ConversationStateUpdateEvent")
          yield { type: "state", key: event.key, value: event.value };
        else if (event.kind === "StreamingDeltaEvent") yield { type: "delta", delta: event };
        else if (seq !== undefined) yield { type: "event", seq, event, cut };
      }
    } catch (error) {
      if (!(error instanceof RequestError && error.isTransient)) throw error;
    } finally {
      socket.close();
    }
    signal?.throwIfAborted();
    throwIfOver(address, socket);
    if (!isLive) await checkAccess(connection, conversation, signal);
    const wait = backoff.next();
    yield { type: "connection", state: "away", retryAt: Date.now() + wait };
    await sleepUnlessOnline(wait, signal);
  }
}

/** The event that a frame could not take: the frame has its number and id. */
async function toWhole(connection: Connection, conversation: string, frame: Frame): Promise<Frame> {
  if (frame.kind !== "ServerErrorEvent" || frame.seq === undefined) return frame;
  const event = await new Events(connection).get(conversation, frame.id);
  return event ? { ...event, seq: frame.seq } : frame;
}

function throwIfOver(address: string, { closeCode, closeReason }: FrameSocket): void {
  const [code, status] = ends[closeCode] ?? [];
  if (code === undefined || status === undefined) return;
  throw new RequestError({ method: "GET", path: address, status, code, detail: `${closeReason}.` });
}

/**
 * Throws what the server says to a plain request, if it refuses that: a browser does not tell why a
 * socket was refused.
 */
async function checkAccess(
  connection: Connection,
  conversation: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  try {
    await new Events(connection).count(conversation, {}, { signal, timeoutMs: accessMs });
  } catch (error) {
    const isRefused = error instanceof RequestError && error.status >= 400 && error.status < 500;
    if (!(error instanceof RequestError) || (isRefused && !error.isTransient)) throw error;
  }
}

/** Sleeps, unless a browser says that it is online again. */
async function sleepUnlessOnline(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const online = new AbortController();
  const wake = () => online.abort();
  browserWindow.addEventListener?.("online", wake);
  try {
    await sleep(ms, signal ? AbortSignal.any([signal, online.signal]) : online.signal);
  } catch {
    signal?.throwIfAborted();
  } finally {
    browserWindow.removeEventListener?.("online", wake);
  }
}
