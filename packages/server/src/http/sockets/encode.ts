import type { Frame } from "../../conversations/api.ts";
import { serverErrorFrame } from "./frames.ts";
import { fitFrame } from "./shorten.ts";

/** The bytes of a frame as they go to clients. */
export type Encode = (frame: Frame) => Buffer;

/** A frame's JSON as it is, kept under the limit that released clients have. */
export const plain = encoder((frame) => fitted(frame.json));

/**
 * The same with `seq`, the number in the log, as the first member of every event that has one: for sockets that were opened with `after_seq`, so that they can
 * do it again.
 */
export const numbered = encoder(({ json, seq }) =>
  fitted(seq === undefined ? json : `{"seq":${seq},${json.slice(1)}`),
);

/** Server-Sent Events: `id` is the number in the log, on events that have one. JSON has no line breaks. */
export const eventStream = encoder(
  ({ json, seq }) => `${seq === undefined ? "" : `id: ${seq}\n`}data: ${json}\n\n`,
);

function fitted(json: string): string {
  return (
    fitFrame(json) ??
    serverErrorFrame("FrameTooLarge", "An event is too large for a socket; read it over REST")
  );
}

/** One frame goes to all followers of a conversation one after the other: they share its bytes, also where these wait. */
function encoder(text: (frame: Frame) => string): Encode {
  let last: { frame: Frame; bytes: Buffer } | undefined;
  return (frame) => {
    if (last?.frame !== frame) last = { frame, bytes: Buffer.from(text(frame)) };
    return last.bytes;
  };
}
