import { describeFindings } from "@sandpiper/agent/risk/judge-action";
import type { ActionEvent } from "@sandpiper/wire";
import { inert, inertJson, inertLine } from "./inert.ts";
import { pieces, wrap } from "./lines.ts";

/** JSON that is nested deeper is shown without indentation, which would grow with its square. */
const maxIndentedDepth = 8;

/**
 * Everything that a call would do, for the person who approves it: each parameter with each of its
 * characters, in lines of at most `columns`, below what the risk rules find. `┆` continues a line.
 */
export function describeCall({ tool_name, action, summary }: ActionEvent, columns: number): string[] {
  if (!action) return [];
  const width = Math.max(columns - 1, 10);
  // The commands in the skill, which the server names.
  const runs =
    action.kind === "InvokeSkillAction" && summary ? describeParameter("summary", summary, width) : [];
  const { kind: _kind, ...parameters } = action;
  return [
    ...fold(`  ${inertLine(tool_name)}`, "  ", width),
    ...describeFindings(action).flatMap((finding) =>
      wrap(finding, width - 4).map((line, at) => (at === 0 ? "  ! " : "    ") + line),
    ),
    ...Object.entries(parameters)
      .filter(([, value]) => value !== null && value !== undefined && value !== false)
      .flatMap(([name, value]) => describeParameter(name, value, width)),
    ...runs,
  ];
}

function describeParameter(name: string, value: unknown, width: number): string[] {
  const text = typeof value === "string" ? inert(value) : describeJson(value);
  const label = inertLine(name);
  if (typeof value !== "string" && !text.includes("\n")) return fold(`  ${label}: ${text}`, "    ", width);
  return [
    ...fold(`  ${label}:`, "    ", width),
    ...text.split("\n").flatMap((line) => fold(`  │ ${line.replaceAll("\t", "    ")}`, "  ┆ ", width)),
  ];
}

/** Indented, unless it is nested deeply. */
function describeJson(value: unknown): string {
  return inertJson(value, isNested(value, maxIndentedDepth) ? undefined : 2);
}

/** Whether a value has more than `levels` levels of lists and objects. */
function isNested(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((item) => isNested(item, levels - 1));
}

/** Splits a line at the width; no character is lost. */
function fold(line: string, next: string, width: number): string[] {
  const [first = ""] = pieces(line, width);
  const rest = line.slice(first.length);
  return rest === "" ? [first] : [first, ...pieces(rest, width - next.length).map((piece) => next + piece)];
}
