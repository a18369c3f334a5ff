import { describeFindings } from "@sandpiper/agent/risk/judge-action";
import type { ActionEvent } from "@sandpiper/wire";
import { inert, inertJson, inertLine } from "./inert.ts";

/**
 * Everything that a call would do, for the person who approves it: each parameter with each of its
 * characters, in lines of at most `columns`, below what the risk rules find. `┆` continues a line.
 */
export function describeCall({ tool_name, action }: ActionEvent, columns: number): string[] {
  if (!action) return [];
  const { kind: _kind, ...parameters } = action;
  const width = Math.max(columns - 1, 10);
  return [
    ...fold(`  ${inertLine(tool_name)}`, "  ", width),
    ...describeFindings(action).flatMap((finding) => fold(`  ! ${finding}`, "    ", width)),
    ...Object.entries(parameters)
      .filter(([, value]) => value !== null && value !== undefined && value !== false)
      .flatMap(([name, value]) => describeParameter(name, value, width)),
  ];
}

function describeParameter(name: string, value: unknown, width: number): string[] {
  const text = typeof value === "string" ? inert(value) : inertJson(value, 2);
  const label = inertLine(name);
  if (typeof value !== "string" && !text.includes("\n")) return fold(`  ${label}: ${text}`, "    ", width);
  return [
    ...fold(`  ${label}:`, "    ", width),
    ...text.split("\n").flatMap((line) => fold(`  │ ${line.replaceAll("\t", "    ")}`, "  ┆ ", width)),
  ];
}

/** Splits a line at the width; no character is lost. */
function fold(line: string, next: string, width: number): string[] {
  const characters = Array.from(line);
  const lines = [characters.splice(0, width).join("")];
  for (let at = 0; at < characters.length; at += width - next.length)
    lines.push(next + characters.slice(at, at + width - next.length).join(""));
  return lines;
}
