import type { Event } from "@sandpiper/wire";
import { type Branch, readBranch } from "./branch.ts";
import { connect } from "./connect.ts";
import { findConversation } from "./conversations.ts";
import { followRun } from "./follow.ts";
import { inertJson } from "./inert.ts";
import { LiveOutput } from "./live-output.ts";
import { printEvent } from "./print-event.ts";
import { Interrupted, onStop } from "./signals.ts";
import { createPaint } from "./style.ts";

export interface LogsOptions {
  follow?: boolean;
  json?: boolean;
}

/** `sandpiper logs`: the events of a conversation; `follow`: new ones too, until the run ends. */
export async function logs(text: string, { follow, json }: LogsOptions): Promise<void> {
  const { client, close } = await connect();
  const abort = new AbortController();
  const restore = onStop((signal) => abort.abort(new Interrupted(signal)));
  try {
    const { id, created_at } = await findConversation(client, text);
    const print = json ? printJson : printer(Date.parse(created_at));
    if (follow) await followRun(client, id, print, abort.signal);
    else if (json) for (const event of await client.events(id)) print(event);
    else printBranch(await readBranch(client, id), print);
  } finally {
    restore();
    await close();
  }
}

/** Prints what was not taken back, and how much was. */
function printBranch({ events, current }: Branch, print: (event: Event) => void): void {
  let undone = 0;
  const count = () => {
    if (undone > 0) process.stdout.write(`           undone    ${undone} events that were taken back\n`);
    undone = 0;
  };
  for (const event of events) {
    if (!current.has(event.id)) undone += 1;
    else {
      count();
      print(event);
    }
  }
  count();
}

function printJson(event: Event): void {
  if (event.kind !== "StreamingDeltaEvent") process.stdout.write(`${inertJson(event)}\n`);
}

function printer(began: number): (event: Event) => void {
  const paint = createPaint(process.stdout);
  const live = new LiveOutput({
    print: (...lines) => process.stdout.write(`${lines.join("\n")}\n`),
    columns: () => process.stdout.columns || 100,
  });
  return (received) => {
    const event = live.take(received);
    const elapsed = Math.max(Date.parse(`${event.timestamp}Z`) - began, 0);
    const columns = process.stdout.columns || 100;
    for (const line of printEvent(event, { elapsed, columns, paint })) process.stdout.write(`${line}\n`);
  };
}
