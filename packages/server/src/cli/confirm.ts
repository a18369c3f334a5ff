import type { ActionEvent, Event } from "@sandpiper/wire";
import { ask } from "./ask.ts";
import type { Client } from "./client.ts";
import type { Paint } from "./style.ts";

/**
 * Asks about the actions that wait for confirmation and sends the answer; returns whether the run
 * continues. Throws CliError.
 */
export async function confirm(client: Client, id: string, paint: Paint): Promise<boolean> {
  const waiting = waitingActions(await client.events(id));
  const risks = [...new Set(waiting.map(({ security_risk }) => (security_risk ?? "UNKNOWN").toLowerCase()))];
  const risk = risks.length > 0 ? ` (risk: ${risks.join(", ")})` : "";
  const what = waiting.length > 1 ? `${waiting.length} actions wait` : "One action waits";
  const answer = await ask(
    paint("bold", `${what} for approval${risk}. Run? [y/N, or type a message for the agent] `),
  );
  if (answer === undefined) return false;
  if (/^y(es)?$/i.test(answer)) await client.approve(id);
  else if (/^(no?)?$/i.test(answer)) await client.reject(id);
  else await client.say(id, answer);
  return !/^(no?)?$/i.test(answer);
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
