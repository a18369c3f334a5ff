import type { Frame } from "../../conversations/api.ts";
import { type Encode, encodeNumbered, encodePlain, encodeSession, makeSessionFrame } from "./encode.ts";
import { makeErrorFrame } from "./frames.ts";
import type { Resend } from "./handshake.ts";

/** What differs between the sockets that follow a conversation. */
export interface FollowProtocol {
  encode: Encode;
  /** The answer to a frame of the client that cannot be processed. */
  makeError(code: string, detail: string): Frame;
  /** The first frame, before the state; `upTo` is the end of the log. */
  makeOpening?(from: number, upTo: number): Frame;
  /** The cursor of a client that received the events up to this number of the log. */
  toCursor(seq: number): number;
}

/** `/sockets/events/{conversation}` (agent-server.md section 6.1). */
export function makeEventProtocol({ mode }: Resend): FollowProtocol {
  return {
    encode: mode === "after" ? encodeNumbered : encodePlain,
    makeError: (code, detail) => ({ json: makeErrorFrame(code, detail) }),
    toCursor: (seq) => seq,
  };
}

/**
 * `/sockets/session/{conversation}` (agent-server-1.58.md section 6.4): frames with a type, and
 * numbers from 0, one less than those of the log. Deltas of an answer are transient events.
 */
export function makeSessionProtocol({ mode }: Resend): FollowProtocol {
  return {
    encode: encodeSession,
    makeError: (code, detail) => makeSessionFrame({ type: "error", code, detail }),
    makeOpening: (from, upTo) =>
      makeSessionFrame(
        mode === "none" ? { type: "sync" } : { type: "sync", from_seq: from, through_seq: upTo - 1 },
      ),
    toCursor: (seq) => seq - 1,
  };
}
