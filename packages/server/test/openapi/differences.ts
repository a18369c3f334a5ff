import type { Facts, FieldFacts, OperationFacts } from "./facts.ts";

/**
 * Returns the differences of `ours` from `theirs`, one line each (`METHOD /path: query limit: …`).
 * Our responses may require a field that theirs leave optional: every client can read that.
 */
export function findDifferences(ours: Facts, theirs: Facts): string[] {
  const lines: string[] = [];
  const paths = new Map(Object.entries(ours).map(([operation, facts]) => [withoutNames(operation), facts]));
  for (const [operation, wanted] of Object.entries(theirs)) {
    const own = paths.get(withoutNames(operation));
    if (!own) lines.push(`${operation}: missing`);
    else lines.push(...compare(own, wanted).map((line) => `${operation}: ${line}`));
  }
  return lines;
}

/** Operations of ours that none of the others has. */
export function findAdditions(ours: Facts, others: readonly Facts[]): string[] {
  const known = new Set(others.flatMap((facts) => Object.keys(facts).map(withoutNames)));
  return Object.keys(ours).filter((operation) => !known.has(withoutNames(operation)));
}

/** Paths match whatever their parameters are called; the names are compared as parameters. */
function withoutNames(operation: string): string {
  return operation.replaceAll(/\{\w+\}/g, "{}");
}

function compare(ours: OperationFacts, theirs: OperationFacts): string[] {
  return [
    ...compareFields("", ours.parameters, theirs.parameters),
    ...compareFields("body ", ours.body, theirs.body),
    ...compareFields("answer ", ours.answer, theirs.answer),
  ];
}

function compareFields(
  part: string,
  ours: Record<string, FieldFacts>,
  theirs: Record<string, FieldFacts>,
): string[] {
  // Parts that their document does not describe are not compared.
  if ("*" in theirs || (part === "answer " && Object.keys(theirs).length === 0)) return [];
  const names = new Set([...Object.keys(theirs), ...Object.keys(ours)].filter((name) => name !== "*"));
  const lines: string[] = [];
  for (const name of [...names].sort()) {
    const [own, wanted] = [ours[name], theirs[name]];
    if (isInside(name, ours, theirs)) continue;
    if (!own) lines.push(`${part}${name}: missing`);
    else if (!wanted) lines.push(`${part}${name}: ours alone`);
    else {
      if (wanted.required && !own.required) lines.push(`${part}${name}: not required`);
      if (own.required && !wanted.required && part !== "answer ") lines.push(`${part}${name}: required`);
      lines.push(...compareEnums(own.enum, wanted.enum).map((line) => `${part}${name}: ${line}`));
    }
  }
  return lines;
}

/** True when the field's parent is reported as missing or theirs does not describe it. */
function isInside(
  name: string,
  ours: Record<string, FieldFacts>,
  theirs: Record<string, FieldFacts>,
): boolean {
  const end = Math.max(name.lastIndexOf("."), 0);
  if (end === 0) return false;
  const parent = name.slice(0, end).replace(/(\[\])+$/, "");
  if (parent === "") return false;
  if (parent in ours !== parent in theirs) return true;
  if (
    parent in theirs &&
    !Object.keys(theirs).some((key) => key.startsWith(`${parent}.`) || key.startsWith(`${parent}[`))
  )
    return true;
  return isInside(parent, ours, theirs);
}

function compareEnums(ours: readonly string[] | undefined, theirs: readonly string[] | undefined): string[] {
  if (!ours && !theirs) return [];
  if (!theirs) return ["a closed set"];
  if (!ours) return ["an open set"];
  const without = theirs.filter((value) => !ours.includes(value));
  const more = ours.filter((value) => !theirs.includes(value));
  return [
    ...(without.length > 0 ? [`without ${without.join(" ")}`] : []),
    ...(more.length > 0 ? [`also ${more.join(" ")}`] : []),
  ];
}

/** A difference that is meant: its line, where `*` stands for any text, and the reason. */
export type Deliberate = readonly [line: string, reason: string];

/** The unlisted differences, and the list entries without a difference. */
export function unlisted(
  lines: readonly string[],
  list: readonly Deliberate[],
): { differences: string[]; outdated: string[] } {
  const patterns = list.map(([line]) => new RegExp(`^${line.split("*").map(literally).join(".*")}$`));
  return {
    differences: lines.filter((line) => !patterns.some((pattern) => pattern.test(line))),
    outdated: list
      .filter((_entry, index) => !lines.some((line) => patterns[index]!.test(line)))
      .map(([line]) => line),
  };
}

/** A text as a pattern that fits itself. */
function literally(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
