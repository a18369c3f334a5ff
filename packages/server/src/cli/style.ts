import { styleText } from "node:util";

export type Style = Parameters<typeof styleText>[0];
/** Colours a text, or returns it unchanged. */
export type Paint = (style: Style, text: string) => string;

/** Colours only on terminals (NO_COLOR, FORCE_COLOR). */
export function createPaint(stream: NodeJS.WritableStream): Paint {
  return (style, text) => styleText(style, text, { stream, validateStream: true });
}

export const plain: Paint = (_style, text) => text;

/** Formats bytes: `512 bytes`, `1.2 MB`, `5.0 GB`. */
export function formatBytes(bytes: number): string {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log(Math.max(bytes, 1)) / Math.log(1024)), units.length - 1);
  return `${power === 0 ? bytes : (bytes / 1024 ** power).toFixed(1)} ${units[power]}`;
}

/** Formats milliseconds: `8 ms`, `1.4 s`, `2 min 05 s`. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}
