import type { ActionEvent, Event } from "@sandpiper/wire";
import { ask } from "./ask.ts";
import type { Client } from "./client.ts";
import { describeCall } from "./describe-call.ts";
import { inert } from "./inert.ts";
import { wrap } from "./lines.ts";
import { page } from "./pager.ts";
import type { Paint } from "./style.ts";

/** Rows of the terminal that the question and what surrounds it need. */
const questionRows = 5;

/**
 * Asks about the actions that wait for confirmation and sends the answer; returns whether the run
 * continues. Only what was shown completely is approved. Throws CliError.
 */
export async function confirm(client: Client, id: string, paint: Paint): Promise<boolean> {
  for (;;) {
    const waiting = waitingActions(await client.events(id));
    const answer = await askAbout(waiting, paint);
    if (answer === undefined) return false;
    const approves = isYes(answer);
    if (approves && !isSame(waiting, waitingActions(await client.events(id)))) {
      process.stderr.write("Other actions wait by now.\n");
      continue;
    }
    if (approves) await client.approve(id);
    else if (isNo(answer)) await client.reject(id);
    else await client.say(id, answer);
    return !isNo(answer);
  }
}

/** Shows the actions and asks until there is an answer about all that was shown. */
async function askAbout(waiting: readonly ActionEvent[], paint: Paint): Promise<string | undefined> {
  const { rows = 24, columns = 80 } = process.stderr;
  const lines = waiting.flatMap((action) => ["", ...describeCall(action, columns)]);
  const room = Math.max(rows - questionRows, 5);
  const isLong = lines.length > room;
  const risks = [...new Set(waiting.map(({ security_risk }) => (security_risk ?? "UNKNOWN").toLowerCase()))];
  const risk = risks.length > 0 ? ` (risk: ${risks.join(", ")})` : "";
  const what = waiting.length > 1 ? `${waiting.length} actions wait` : "One action waits";
  const shown = isLong ? lines.slice(0, room - 1) : lines;
  for (const line of wrap(inert(`${what} for approval${risk}.`), columns - 1))
    process.stderr.write(`${paint("bold", inert(line))}\n`);
  process.stderr.write(`${inert(shown.join("\n"))}\n`);
  if (isLong) process.stderr.write(`… ${lines.length - shown.length} more lines; v shows all of them.\n`);
  for (let seen = !isLong; ; ) {
    const answer = await ask(paint("bold", "Run? [y/N, v to view, or type a message for the agent] "));
    const views = /^v(iew)?$/i.test(answer ?? "");
    if (!views && (seen || !isYes(answer))) return answer;
    if (!views) process.stderr.write("Not all of it was shown: here it is, then the question again.\n");
    await page(lines);
    seen = true;
  }
}

const isYes = (answer: string | undefined) => /^y(es)?$/i.test(answer ?? "");
const isNo = (answer: string) => /^(no?)?$/i.test(answer);

function isSame(shown: readonly ActionEvent[], waiting: readonly ActionEvent[]): boolean {
  return shown.length === waiting.length && shown.every(({ id }, at) => id === waiting[at]!.id);
}

/** Tool calls without a result, except those of sub-agents. */
export function waitingActions(events: readonly Event[]): ActionEvent[] {
  const open = new Map<string, ActionEvent>();
  for (const event of events) {
    if (event.kind === "ActionEvent" && event.action) open.set(event.tool_call_id, event);
    else if ("tool_call_id" in event) open.delete(event.tool_call_id as string);
  }
  return [...open.values()];
}
