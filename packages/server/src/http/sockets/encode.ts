import type { Frame } from "../../conversations/api.ts";
import { makeErrorFrame } from "./frames.ts";
import { fitFrame } from "./shorten.ts";

/** Encodes a frame for clients. */
export type Encode = (frame: Frame) => Buffer;

/** A frame's JSON within the size limit of released clients. */
export const encodePlain = makeEncoder((frame) => fitOrReplace(frame.json));

/**
 * Adds `seq`, the number in the log, as the first member of stored events, and `cut` to those that
 * do not fit whole: for sockets opened with `after_seq`, so that they can resume again and read the
 * whole event elsewhere. Even an event that is replaced keeps its number and id.
 */
export const encodeNumbered = makeEncoder(({ json, seq }) => {
  if (seq === undefined) return fitOrReplace(json);
  const fitted = fitFrame(json) ?? makeErrorFrame(...tooLarge, (JSON.parse(json) as { id: string }).id);
  return `{"seq":${seq},${fitted === json ? "" : '"cut":true,'}${fitted.slice(1)}`;
});

/** Frames of the session socket that contain no event, such as `sync` and `error`. */
const sessionFrames = new WeakSet<Frame>();

/** A frame that `encodeSession` sends as it is. */
export function makeSessionFrame(content: { type: string; [key: string]: unknown }): Frame {
  const frame = { json: JSON.stringify(content) };
  sessionFrames.add(frame);
  return frame;
}

/** The session socket: stored events with their number from 0, and everything else as transient. */
export const encodeSession = makeEncoder((frame) => {
  if (sessionFrames.has(frame)) return frame.json;
  const event = fitOrReplace(frame.json);
  const isStored = frame.seq !== undefined && frame.listed === true;
  return isStored
    ? `{"type":"durable","seq":${frame.seq! - 1},"event":${event}}`
    : `{"type":"transient","event":${event}}`;
});

/** Server-Sent Events: `id` is the number in the log. JSON has no line breaks. */
export const encodeServerSentEvent = makeEncoder(
  ({ json, seq }) => `${seq === undefined ? "" : `id: ${seq}\n`}data: ${json}\n\n`,
);

const tooLarge = ["FrameTooLarge", "An event is too large for a socket; read it over REST"] as const;

function fitOrReplace(json: string): string {
  return fitFrame(json) ?? makeErrorFrame(...tooLarge);
}

/** Encodes each frame once for all followers of a conversation, which share the bytes. */
function makeEncoder(text: (frame: Frame) => string): Encode {
  const encoded = new WeakMap<Frame, Buffer>();
  return (frame) => {
    const bytes = encoded.get(frame) ?? Buffer.from(text(frame));
    encoded.set(frame, bytes);
    return bytes;
  };
}
