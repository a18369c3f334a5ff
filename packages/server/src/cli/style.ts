import { styleText } from "node:util";

export type Style = Parameters<typeof styleText>[0];
/** Colours a text, or leaves it as it is. */
export type Paint = (style: Style, text: string) => string;

/** Colours only where a person looks at a terminal that wants them (NO_COLOR, FORCE_COLOR). */
export function createPaint(stream: NodeJS.WritableStream): Paint {
  return (style, text) => styleText(style, text, { stream, validateStream: true });
}

export const plain: Paint = (_style, text) => text;

/**
 * Untrusted text made safe for a terminal: control characters, which could move the cursor or set a
 * title, become visible. Newlines and tabs stay.
 */
export function printable(text: string): string {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, "�");
}

/** Milliseconds as a short text: `8 ms`, `1.4 s`, `2 min 05 s`. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}
