import { maxTerminalSide, TerminalFrame } from "@sandpiper/wire";
import { Compile } from "typebox/compile";
import { hasManyValues } from "../server/json.ts";

/** What the query of `/sockets/terminal` asks for. */
export interface TerminalRequest {
  /** For users' keys, which do not name one. */
  sandboxId: string | undefined;
  /** Undefined for a shell over pipes (`tty=false`). */
  tty: { cols: number; rows: number } | undefined;
  cwd: string | undefined;
}

/** Longest path that the system knows, bytes. */
const maxPathBytes = 4_096;

const frames = Compile(TerminalFrame);

/** Reads a query, or gives the sentence that says what is wrong with it. Sizes beyond the bounds are brought to them. */
export function readTerminalRequest(query: URLSearchParams): TerminalRequest | string {
  const size = { cols: 80, rows: 24 };
  for (const name of ["cols", "rows"] as const) {
    const text = query.get(name);
    if (!text) continue;
    if (!/^\d{1,9}$/.test(text)) return `${name}: Input should be a valid integer`;
    size[name] = withinBounds(Number(text));
  }
  const cwd = query.get("cwd") || undefined;
  if (cwd !== undefined && (cwd.includes("\0") || Buffer.byteLength(cwd) >= maxPathBytes))
    return "cwd: Input should be a path";
  const tty = /^(false|0|no|off)$/i.test(query.get("tty") ?? "") ? undefined : size;
  return { sandboxId: query.get("sandbox_id") || undefined, tty, cwd };
}

/** What a frame of a client is: bytes for the shell, their end, a new size, or undefined where there is nothing to do. */
export type TerminalMessage = { input: Buffer } | "eof" | { cols: number; rows: number } | undefined;

/**
 * Reads one frame. A text frame is a control frame where it is a JSON object of that form; any other is input as it is, as xterm.js's
 * AttachAddon sends it. An auth frame that comes late is ignored, and a size that is none too.
 */
export function readTerminalFrame(bytes: Buffer, isBinary: boolean): TerminalMessage {
  const control = isBinary ? undefined : readControl(bytes);
  if (control === undefined) return { input: bytes };
  if (!frames.Check(control)) return undefined;
  switch (control.type) {
    case "input":
      return { input: Buffer.from(control.data) };
    case "eof":
      return "eof";
    case "resize":
      return { cols: withinBounds(control.cols), rows: withinBounds(control.rows) };
  }
}

const controlTypes: ReadonlySet<unknown> = new Set(["input", "resize", "eof", "auth"]);

/** The object of a control frame, in whatever shape it is otherwise. */
function readControl(bytes: Buffer): unknown {
  // Most frames are keys.
  if (bytes.length < 2 || !/^\s*\{/.test(bytes.toString("latin1", 0, 16))) return undefined;
  try {
    // Not `parseJson`: a key may be NUL (Ctrl-@). Only the outermost values are looked at.
    const text = bytes.toString();
    if (hasManyValues(text)) return undefined;
    const value = JSON.parse(text) as { type?: unknown };
    return controlTypes.has(value.type) ? value : undefined;
  } catch {
    return undefined;
  }
}

function withinBounds(side: number): number {
  return Math.min(Math.max(Math.floor(side), 1), maxTerminalSide);
}
