import { maxTerminalSide, TerminalFrame } from "@sandpiper/wire";
import { Compile } from "typebox/compile";
import { hasTooManyValues } from "../server/json.ts";

/** The query of `/sockets/terminal`. */
export interface TerminalRequest {
  /** Only needed with a user's key, which does not identify a sandbox. */
  sandboxId: string | undefined;
  /** Undefined for a shell over pipes (`tty=false`). */
  tty: { cols: number; rows: number } | undefined;
  cwd: string | undefined;
}

/** Maximum length of a path in Linux, bytes. */
const maxPathBytes = 4_096;

const frames = Compile(TerminalFrame);

/** Parses a query, or returns what is wrong with it. Sizes are clamped. */
export function parseTerminalRequest(query: URLSearchParams): TerminalRequest | string {
  const size = { cols: 80, rows: 24 };
  for (const name of ["cols", "rows"] as const) {
    const text = query.get(name);
    if (!text) continue;
    if (!/^\d{1,9}$/.test(text)) return `${name}: Input should be a valid integer`;
    size[name] = clampSide(Number(text));
  }
  const cwd = query.get("cwd") || undefined;
  if (cwd !== undefined && (cwd.includes("\0") || Buffer.byteLength(cwd) >= maxPathBytes))
    return "cwd: Input should be a path";
  const tty = /^(false|0|no|off)$/i.test(query.get("tty") ?? "") ? undefined : size;
  return { sandboxId: query.get("sandbox_id") || undefined, tty, cwd };
}

/** Input for the shell, its end, a new size, or undefined for an ignored frame. */
export type TerminalMessage = { input: Buffer } | "eof" | { cols: number; rows: number } | undefined;

/**
 * Parses a frame. A text frame with a JSON control object is a control frame; everything else is
 * input, as xterm.js's AttachAddon sends it. Late auth frames and invalid sizes are ignored.
 */
export function parseTerminalFrame(bytes: Buffer, isBinary: boolean): TerminalMessage {
  const control = isBinary ? undefined : parseControl(bytes);
  if (control === undefined) return { input: bytes };
  if (!frames.Check(control)) return undefined;
  switch (control.type) {
    case "input":
      return { input: Buffer.from(control.data) };
    case "eof":
      return "eof";
    case "resize":
      return { cols: clampSide(control.cols), rows: clampSide(control.rows) };
  }
}

const controlTypes: ReadonlySet<unknown> = new Set(["input", "resize", "eof", "auth"]);

/** The object of a control frame, unchecked except for its type. */
function parseControl(bytes: Buffer): unknown {
  // Most frames are single keys.
  if (bytes.length < 2 || !/^\s*\{/.test(bytes.toString("latin1", 0, 16))) return undefined;
  try {
    // Not `parseJson`: input may contain NUL (Ctrl-@), and only top-level values are read.
    const text = bytes.toString();
    if (hasTooManyValues(text)) return undefined;
    const value = JSON.parse(text) as { type?: unknown };
    return controlTypes.has(value.type) ? value : undefined;
  } catch {
    return undefined;
  }
}

function clampSide(side: number): number {
  return Math.min(Math.max(Math.floor(side), 1), maxTerminalSide);
}
