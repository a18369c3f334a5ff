import type { Json } from "../../support/platform.ts";
import { findOpenCalls, getStatus } from "./judge.ts";
import type { UserActions } from "./log.ts";
import { userWish } from "./task.ts";

/** A call with this in it may not run. */
export const forbidden = "forbidden";

/**
 * Approves waiting actions unless they are forbidden; pauses once, resumes, and sends one message.
 */
export const userActions: UserActions = async (call, id, log) => {
  const base = `/api/conversations/${id}`;
  const did = async (path: string, body?: Json) => {
    const { status, body: answer } = await call("POST", `${base}/${path}`, body);
    if (status >= 500) throw new Error(`${path}: ${JSON.stringify(answer)}`);
    return false;
  };
  const status = getStatus(log);
  const hasResult = (name: string) =>
    log.some(({ event }) => event.kind === "ObservationEvent" && event.tool_call_id.startsWith(`${name}_`));
  const statuses = log.flatMap(({ event }) => (event.key === "execution_status" ? [event.value] : []));
  if (status === "waiting_for_confirmation") {
    const accept = !JSON.stringify([...findOpenCalls(log).values()]).includes(forbidden);
    return did("events/respond_to_confirmation", { accept, reason: accept ? "" : "Not this." });
  }
  // A rejection leaves it at rest, too.
  if (status === "paused" || status === "idle") return did("run");
  if (status === "running" && hasResult("1") && !statuses.includes("paused")) return did("pause");
  const wrote = log.some(({ event }) => JSON.stringify(event.llm_message ?? "").includes(userWish));
  if (hasResult("4") && !wrote)
    return did("events", { role: "user", content: [{ type: "text", text: userWish }], run: true });
  return wrote;
};
