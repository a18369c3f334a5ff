import type { WebSocket } from "ws";
import { movedClose } from "./moved.ts";

/** Unsent bytes of one side above which the other side is not read. */
const maxUnsentBytes = 256 * 1024;

/** Codes that stand for a close frame without a code, and for none; they cannot be sent. */
const noCode = 1005;
const noFrame = 1006;

/**
 * Joins two sockets: each gets the frames of the other one, and closes as the other one closes.
 * When the owner's socket breaks, the client is told to connect again.
 */
export function relaySocket(client: WebSocket, owner: WebSocket): void {
  pass(client, owner, () => owner.terminate());
  pass(owner, client, () => client.close(...movedClose));
}

/** `onBroken` ends the other socket when one socket has ended without a close frame. */
function pass(from: WebSocket, to: WebSocket, onBroken: () => void): void {
  from.on("error", () => {});
  from.on("message", (data, isBinary) => {
    if (to.readyState !== to.OPEN) return;
    to.send(data, { binary: isBinary }, () => {
      if (from.isPaused && to.bufferedAmount <= maxUnsentBytes / 2) from.resume();
    });
    if (to.bufferedAmount > maxUnsentBytes) from.pause();
  });
  from.once("close", (code, reason) => {
    // Its close frame is read.
    to.resume();
    if (code === noFrame) onBroken();
    else if (code === noCode) to.close();
    else to.close(code, reason);
  });
  if (from.readyState === from.CLOSED) to.close();
}
