import type { IncomingMessage } from "node:http";
import { parseEventTime } from "@sandpiper/wire";
import { credentials } from "../auth.ts";

/** Which stored events a socket gets before the live ones (agent-server.md section 6.1). `after_seq` resumes after a 1013 close. */
export type Resend = { mode: "none" } | { mode: "all" } | { mode: "since"; timestamp: string } | { mode: "after"; seq: number };

/** What a client asks for in its handshake. */
export interface Handshake {
  /** The id as it stands in the path, unchecked. */
  conversation: string;
  /** Keys from the headers and the query; none means that the first frame brings one. */
  keys: string[];
  resend: Resend;
}

/** Reads a handshake, or gives the HTTP status and text with which it is refused. */
export function readHandshake(request: IncomingMessage): Handshake | { status: number; detail: string } {
  if (!URL.canParse(request.url ?? "", "http://localhost")) return { status: 400, detail: "Bad Request" };
  const url = new URL(request.url!, "http://localhost");
  const path = /^\/sockets\/events\/([^/]+)\/?$/.exec(url.pathname);
  if (!path) return { status: 404, detail: "Not Found" };
  const query = url.searchParams;
  const resend = readResend(query);
  if (typeof resend === "string") return { status: 422, detail: resend };
  const inQuery = query.get("session_api_key");
  return { conversation: path[1]!, keys: [...(inQuery ? [inQuery] : []), ...credentials(request.headers)], resend };
}

function readResend(query: URLSearchParams): Resend | string {
  const mode = query.get("resend_mode");
  const seq = query.get("after_seq");
  if (seq !== null) {
    if (!/^\d{1,15}$/.test(seq)) return "after_seq: Input should be a valid integer";
    return { mode: "after", seq: Number(seq) };
  }
  if (mode === "all" || (mode === null && /^(true|1|yes|on|t|y)$/i.test(query.get("resend_all") ?? ""))) return { mode: "all" };
  if (mode === "since") {
    const timestamp = parseEventTime((query.get("after_timestamp") ?? "").replace(/(T[\d:.]+) (\d{2}:?\d{2})$/, "$1+$2"));
    if (timestamp === undefined) return "after_timestamp: resend_mode=since needs an ISO-8601 time";
    return { mode: "since", timestamp };
  }
  return mode === null ? { mode: "none" } : "resend_mode: Input should be 'all' or 'since'";
}
