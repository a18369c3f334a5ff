import type { IBufferCell } from "@xterm/headless";
import type { Screen } from "./terminal.ts";

const cell = { width: 8, height: 18, fontSize: 13.3 };
const padding = 16;
const background = "#1e2329";
const foreground = "#d6dae0";
/** The sixteen colours of a terminal, the bright ones from 8 on. */
const palette = [
  ...["#4a5059", "#e06c75", "#8cc570", "#d9b36c", "#6cb0f0", "#c48be0", "#5dbdc4", "#d6dae0"],
  ...["#7b838f", "#f08a90", "#a6d98c", "#ecc98a", "#8cc4ff", "#d8a6f0", "#7dd3d9", "#ffffff"],
];

/** A run of characters with one style. */
export interface Span {
  column: number;
  text: string;
  style: string;
}

/** The rows of a terminal down to the last one with text. */
export function readRows({ buffer: { active }, cols }: Screen): Span[][] {
  const rows: Span[][] = [];
  for (let at = 0; at < active.length; at++) {
    const line = active.getLine(at)!;
    const spans: Span[] = [];
    for (let column = 0; column < cols; column++) {
      const content = line.getCell(column)!;
      if (content.getWidth() === 0) continue;
      const style = styleOf(content);
      const last = spans.at(-1);
      if (last?.style === style) last.text += content.getChars() || " ";
      else spans.push({ column, text: content.getChars() || " ", style });
    }
    rows.push(spans);
  }
  while (rows.length > 0 && textOf(rows.at(-1)!).trim() === "") rows.pop();
  return rows;
}

export function textOf(spans: Span[]): string {
  return spans.map(({ text }) => text).join("");
}

/** An SVG with one line of text for each row, so that changes of a picture can be read. */
export function drawRows(rows: Span[][], columns: number, title: string): string {
  const width = columns * cell.width + 2 * padding;
  const height = rows.length * cell.height + 2 * padding;
  const lines = rows.map((spans, row) => {
    const y = padding + row * cell.height + 14;
    return `<text y="${y}">${spans.map(drawSpan).join("")}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
<title>${escapeText(title)}</title>
<rect width="${width}" height="${height}" rx="8" fill="${background}"/>
<g fill="${foreground}" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="${cell.fontSize}">
${lines.join("\n")}
</g>
</svg>
`;
}

/** Words with two or more blanks between are placed on their own, because blanks collapse. */
function drawSpan({ column, text, style }: Span): string {
  return Array.from(text.matchAll(/\S+(?: \S+)*/g), (match) => {
    const shown = match[0];
    const x = padding + (column + match.index) * cell.width;
    // The length keeps columns aligned, whichever font a reader has.
    return `<tspan x="${x}" textLength="${shown.length * cell.width}"${style}>${escapeText(shown)}</tspan>`;
  }).join("");
}

function styleOf(content: IBufferCell): string {
  const color = colorOf(content);
  return [
    color ? ` fill="${color}"` : "",
    content.isBold() ? ' font-weight="bold"' : "",
    content.isDim() ? ' opacity="0.65"' : "",
    content.isItalic() ? ' font-style="italic"' : "",
    content.isUnderline() ? ' text-decoration="underline"' : "",
  ].join("");
}

function colorOf(content: IBufferCell): string | undefined {
  const color = content.getFgColor();
  if (content.isFgRGB()) return `#${color.toString(16).padStart(6, "0")}`;
  return content.isFgPalette() ? (palette[color] ?? foreground) : undefined;
}

function escapeText(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
