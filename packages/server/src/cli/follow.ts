import { setTimeout as sleep } from "node:timers/promises";
import type { Event, ExecutionStatus } from "@sandpiper/wire";
import { WebSocket } from "ws";
import type { Client } from "./client.ts";
import { CliError } from "./errors.ts";

/** End states of a run; a conversation with a task may be `idle` or `running` before. */
const endStates: readonly ExecutionStatus[] = [
  "finished",
  "error",
  "stuck",
  "paused",
  "waiting_for_confirmation",
  "deleting",
];
const reconnects = 20;
const fatalCodes = [4001, 4004];

/**
 * Follows a conversation until the run ends: calls back once per event, in order, live frames
 * included, and reconnects. Returns the final state. Events in `seen` are skipped.
 */
export async function followRun(
  client: Client,
  id: string,
  onEvent: (event: Event) => void,
  signal?: AbortSignal,
  seen = new Set<string>(),
): Promise<ExecutionStatus> {
  const show = (event: Event) => {
    if (seen.has(event.id)) return;
    seen.add(event.id);
    onEvent(event);
  };
  for (let attempt = 0; ; attempt++) {
    const { status, code } = await followSocket(client, id, show, signal);
    signal?.throwIfAborted();
    if (status) {
      // The list has events that the socket missed.
      for (const event of await client.events(id)) show(event);
      return status;
    }
    if (fatalCodes.includes(code))
      throw new CliError(`The event socket of ${client.url} closed (code ${code}).`);
    if (attempt >= reconnects)
      throw new CliError(
        `The server at ${client.url} is gone. The work so far is stored: start the server again, then use --continue ${id.slice(0, 8)}.`,
      );
    await sleep(Math.min(100 * 2 ** attempt, 3000), undefined, { signal });
  }
}

/** One connection; resolves without a status when it breaks before the run ends. */
function followSocket(
  client: Client,
  id: string,
  onEvent: (event: Event) => void,
  signal: AbortSignal | undefined,
): Promise<{ status?: ExecutionStatus; code: number }> {
  return new Promise((resolve) => {
    const url = `${client.url.replace(/^http/, "ws")}/sockets/events/${id}?resend_mode=all`;
    const socket = new WebSocket(url, { headers: client.headers, maxPayload: 64 * 1024 * 1024 });
    let status: ExecutionStatus | undefined;
    const stop = () => socket.terminate();
    signal?.addEventListener("abort", stop, { once: true });
    socket.on("message", (data) => {
      const event = JSON.parse(String(data)) as Event;
      onEvent(event);
      const state = executionStatus(event);
      if (state && endStates.includes(state)) {
        status = state;
        socket.close();
      }
    });
    socket.on("error", () => {});
    socket.on("close", (code) => {
      signal?.removeEventListener("abort", stop);
      resolve({ ...(status && { status }), code });
    });
  });
}

/** The execution status in a frame, if any. */
export function executionStatus(event: Event): ExecutionStatus | undefined {
  if (event.kind !== "ConversationStateUpdateEvent") return undefined;
  if (event.key === "execution_status") return event.value as ExecutionStatus;
  if (event.key === "full_state")
    return (event.value as { execution_status?: ExecutionStatus }).execution_status;
  return undefined;
}
