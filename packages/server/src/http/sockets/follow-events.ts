import { PlatformError } from "@sandpiper/core/errors";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { FastifyBaseLogger } from "fastify";
import type { Conversations, Follower, Frame } from "../../conversations/api.ts";
import type { EventLog } from "../../store/event-log.ts";
import { EarlyFrames } from "./early-frames.ts";
import type { Encode } from "./encode.ts";
import { makeStateFrame } from "./frames.ts";
import type { Resend } from "./handshake.ts";
import { Outbox, type OutboxLimits, type Sink } from "./outbox.ts";
import { findResendStart, resendEvents } from "./resend.ts";

export interface FollowDeps {
  conversations: Pick<Conversations, "live">;
  events: EventLog;
  scheduler: EventLoopScheduler;
  logger: FastifyBaseLogger;
}

/** A connection that follows a conversation. */
export interface FollowerSink extends Sink, Pick<Follower, "settle" | "echo"> {
  /** The frame before the state; `upTo` is the end of the log. */
  makeOpening?(from: number, upTo: number): Frame;
  /** Ends the connection after an internal failure. */
  fail(): void;
  /** Ends the connection because the conversation was deleted. */
  deleted(): void;
  /** Ends the connection because another node has the conversation now. */
  moved(): void;
  /** `lost`: the client did not close the connection, and probably opens a new one. */
  onClose(listener: (lost: boolean) => void): void;
}

/**
 * Sends a conversation's full state, then the requested stored events, then live frames until the
 * connection ends (agent-server.md section 6.1). Returns the outbox for additional frames, or
 * undefined if the connection ended first.
 */
export async function followEvents(
  sink: FollowerSink,
  encode: Encode,
  id: string,
  resend: Resend,
  services: FollowDeps,
  limits: OutboxLimits,
): Promise<Outbox | undefined> {
  const queue = services.scheduler.queue("followers");
  return queue.run(() =>
    sink.open ? startFollowing(sink, encode, id, resend, services, limits) : undefined,
  );
}

async function startFollowing(
  sink: FollowerSink,
  encode: Encode,
  id: string,
  resend: Resend,
  { conversations, events, logger, scheduler }: FollowDeps,
  limits: OutboxLimits,
): Promise<Outbox | undefined> {
  const early = new EarlyFrames(limits.maxUnsentBytes);
  let receive = (frame: Frame) => early.add(frame);
  const unfollow = conversations.live.follow(id, {
    onFrame: (frame) => receive(frame),
    onDeleted: () => sink.deleted(),
    onMoved: () => sink.moved(),
    ...(sink.settle && { settle: () => sink.settle!() }),
    ...(sink.echo && { echo: () => sink.echo!() }),
  });
  sink.onClose(unfollow);
  // Each event is in the resend, up to this number, or arrives while the connection is followed.
  const upTo = await events.lastSeq(id);
  const from = await findResendStart(events, id, resend, upTo);
  early.forgetUpTo(upTo);
  const state = await getState(conversations, id);
  if (!sink.open) return undefined;
  // The conversation was deleted while the client waited.
  if (!state) return void sink.deleted();
  if (early.isOverfull) throw new Error("Too many events arrived while a follower began.");
  const onCutOff = (seq: number) => logger.warn({ conversationId: id, seq }, "a slow follower was cut off");
  const outbox = new Outbox(sink, encode, resend.mode === "none" ? 0 : upTo, limits, onCutOff);
  receive = (frame) => outbox.live(frame);
  for (const frame of early.take()) outbox.live(frame);
  if (sink.makeOpening) outbox.sendNow(sink.makeOpening(from, upTo));
  // A client that receives nothing else resumes from this number.
  const mayMissEnd = sink.settle && conversations.live.mayMissEnd(id);
  const [opening, ...more] = openingFrames(state.full, mayMissEnd);
  outbox.sendNow({ ...opening, seq: from });
  for (const frame of more) outbox.sendNow(frame);
  if (state.goal) outbox.sendNow({ json: makeStateFrame("goal", state.goal) });
  resendEvents(
    events,
    id,
    from,
    upTo,
    (frame) => outbox.resend(frame),
    () => sink.open,
    async (work) => scheduler.queue("resends").run(work),
  )
    .then(() => outbox.goLive())
    .catch((error: unknown) => {
      logger.error({ err: error, conversationId: id }, "a resend failed");
      sink.fail();
    });
  return outbox;
}

/**
 * The state for a new follower. A client that comes back handles it late, and a run that it has
 * started meanwhile would end with a state that is not `running`. So the status comes in a frame of
 * its own, unless the client may have missed the end of a run, for which it waits.
 */
function openingFrames(state: Record<string, unknown>, mayMissEnd: boolean | undefined): [Frame, ...Frame[]] {
  const { execution_status: status, ...rest } = state;
  if (mayMissEnd !== false || status === "running")
    return [{ json: makeStateFrame("full_state", state), isFullState: true, isLate: mayMissEnd === true }];
  // A frame with the status `error` or `stuck` ends a run() too, and the client has had it before.
  const known = status === "error" || status === "stuck";
  return [
    { json: makeStateFrame("full_state", rest) },
    ...(known ? [] : [{ json: makeStateFrame("execution_status", status) }]),
  ];
}

interface FollowedState {
  full: Record<string, unknown>;
  goal: Record<string, unknown> | undefined;
}

/** The state of a conversation now; undefined when it does not exist. */
async function getState(
  conversations: FollowDeps["conversations"],
  id: string,
): Promise<FollowedState | undefined> {
  try {
    const [full, goal] = await Promise.all([conversations.live.fullState(id), conversations.live.goal(id)]);
    return { full, goal };
  } catch (error) {
    if (error instanceof PlatformError && error.code === "ConversationNotFound") return undefined;
    throw error;
  }
}
