import { PlatformError } from "@sandpiper/core/errors";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { FastifyBaseLogger } from "fastify";
import type { Conversations } from "../../conversations/api.ts";
import type { EventLog } from "../../store/event-log.ts";
import type { Encode } from "./encode.ts";
import { fullStateFrame } from "./frames.ts";
import type { Resend } from "./handshake.ts";
import { Outbox, type OutboxLimits, type Sink } from "./outbox.ts";
import { resendEvents, startOf } from "./resend.ts";

export interface FollowServices {
  conversations: Pick<Conversations, "follow" | "fullState">;
  events: EventLog;
  scheduler: EventLoopScheduler;
  logger: FastifyBaseLogger;
}

/** A connection that follows a conversation. */
export interface FollowerSink extends Sink {
  /** Ends the connection after a failure of the server's own. */
  fail(): void;
  /** Ends the connection of a client whose conversation has been deleted. */
  deleted(): void;
  onClose(listener: () => void): void;
}

/** Clients that lost their connections together come again together: other work runs between slices. */
const queueOptions = { sliceMs: 5, defersToConnections: false };

/**
 * Sends a conversation's full state, then the stored events that are asked for, then every frame as it comes, until the connection ends
 * (agent-server.md section 6.1). Gives the outbox, for frames beside these; undefined where the connection ended before it came to that.
 */
export async function followEvents(
  sink: FollowerSink,
  encode: Encode,
  id: string,
  resend: Resend,
  services: FollowServices,
  limits: OutboxLimits,
): Promise<Outbox | undefined> {
  const queue = services.scheduler.queue("followers", queueOptions);
  return queue.run(() => (sink.open ? begin(sink, encode, id, resend, services, limits) : undefined));
}

function begin(
  sink: FollowerSink,
  encode: Encode,
  id: string,
  resend: Resend,
  { conversations, events, logger }: FollowServices,
  limits: OutboxLimits,
): Outbox | undefined {
  const state = stateOf(conversations, id);
  // It was deleted while the client waited for its turn.
  if (!state) return void sink.deleted();
  // Following begins in the turn in which the end of the log is read: every event is either in the resend or in a live frame.
  const upTo = events.lastSeq(id);
  const from = startOf(events, id, resend, upTo);
  const onCutOff = (seq: number) => logger.warn({ conversationId: id, seq }, "a slow follower was cut off");
  const outbox = new Outbox(sink, encode, resend.mode === "none" ? 0 : upTo, limits, onCutOff);
  const unfollow = conversations.follow(
    id,
    (frame) => outbox.live(frame),
    () => sink.deleted(),
  );
  sink.onClose(unfollow);
  // Its number is where the client goes on if it gets nothing else.
  outbox.now({ json: fullStateFrame(state), seq: from });
  resendEvents(
    events,
    id,
    from,
    upTo,
    (seq, json) => outbox.resend(seq, json),
    () => sink.open,
  )
    .then(() => outbox.goLive())
    .catch((error: unknown) => {
      logger.error({ err: error, conversationId: id }, "a resend failed");
      sink.fail();
    });
  return outbox;
}

function stateOf(
  conversations: FollowServices["conversations"],
  id: string,
): Record<string, unknown> | undefined {
  try {
    return conversations.fullState(id);
  } catch (error) {
    if (error instanceof PlatformError && error.code === "ConversationNotFound") return undefined;
    throw error;
  }
}
