import type { IncomingMessage } from "node:http";
import { parseEventTime } from "@sandpiper/wire";
import { splitAgentUrl } from "../routes/agent-server/view.ts";
import { getKeys } from "../server/auth.ts";

/**
 * Which stored events precede the live ones (agent-server.md section 6.1). `after_seq` resumes
 * after a 1013 close.
 */
export type Resend =
  | { mode: "none" }
  | { mode: "all" }
  | { mode: "since"; timestamp: string }
  | { mode: "after"; seq: number };

/** The conversation's id comes unchecked from the path. */
export type SocketTarget =
  | { kind: "events" | "session"; conversation: string; resend: Resend }
  | { kind: "bash-events"; query: URLSearchParams }
  | { kind: "terminal"; query: URLSearchParams };

export interface Handshake {
  target: SocketTarget;
  /** The sandbox in the path's prefix, unchecked. */
  sandboxId: string | undefined;
  /** Keys from the headers and the query; if empty, the first frame brings one. */
  keys: string[];
}

/** Parses a handshake, or returns the HTTP status and text of the refusal. */
export function parseHandshake(request: IncomingMessage): Handshake | { status: number; detail: string } {
  const split = splitAgentUrl(request.url ?? "");
  const text = split?.url ?? request.url ?? "";
  if (!URL.canParse(text, "http://localhost")) return { status: 400, detail: "Bad Request" };
  const { pathname, searchParams } = new URL(text, "http://localhost");
  const target = parseTarget(pathname, searchParams);
  if ("status" in target) return target;
  const inQuery = searchParams.get("session_api_key");
  const keys = [...(inQuery ? [inQuery] : []), ...getKeys(request.headers)];
  return { target, sandboxId: split?.sandboxId, keys };
}

function parseTarget(
  path: string,
  query: URLSearchParams,
): SocketTarget | { status: number; detail: string } {
  const [, follow, conversation] = /^\/sockets\/(events|session)\/([^/]+)\/?$/.exec(path) ?? [];
  if (conversation !== undefined) {
    const resend = follow === "session" ? parseSessionCursor(query) : parseResend(query);
    return typeof resend === "string"
      ? { status: 422, detail: resend }
      : { kind: follow as "events" | "session", conversation, resend };
  }
  const kind = /^\/sockets\/(bash-events|terminal)\/?$/.exec(path)?.[1] as
    | "bash-events"
    | "terminal"
    | undefined;
  return kind ? { kind, query } : { status: 404, detail: "Not Found" };
}

/** Parses the cursor of a session, whose numbers begin with 0; -1 is before the first event. */
function parseSessionCursor(query: URLSearchParams): Resend | string {
  const cursor = query.get("after_seq");
  if (cursor === null) return { mode: "none" };
  if (!/^(?:-1|\d{1,15})$/.test(cursor)) return "after_seq: Input should be a valid integer";
  return { mode: "after", seq: Number(cursor) + 1 };
}

/** Parses which events to send again, or returns what is wrong with the query. */
export function parseResend(query: URLSearchParams): Resend | string {
  const mode = query.get("resend_mode");
  const seq = query.get("after_seq");
  if (seq !== null) {
    if (!/^\d{1,15}$/.test(seq)) return "after_seq: Input should be a valid integer";
    return { mode: "after", seq: Number(seq) };
  }
  if (mode === "all" || (mode === null && /^(true|1|yes|on|t|y)$/i.test(query.get("resend_all") ?? "")))
    return { mode: "all" };
  if (mode === "since") {
    const timestamp = parseEventTime(
      (query.get("after_timestamp") ?? "").replace(/(T[\d:.]+) (\d{2}:?\d{2})$/, "$1+$2"),
    );
    if (timestamp === undefined) return "after_timestamp: resend_mode=since needs an ISO-8601 time";
    return { mode: "since", timestamp };
  }
  return mode === null ? { mode: "none" } : "resend_mode: Input should be 'all' or 'since'";
}
