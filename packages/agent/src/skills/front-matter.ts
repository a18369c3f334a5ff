import { parse as parseYaml } from "yaml";

/** A Markdown file's front matter, and the text below it. */
export interface FrontMatter {
  /** Empty when missing or invalid. */
  facts: Record<string, unknown>;
  body: string;
  /** The front matter exists, but is invalid or has no end. */
  broken: boolean;
}

/** Splits a Markdown file. Never throws: the text below broken front matter still counts. */
export function splitFrontMatter(text: string): FrontMatter {
  const whole = text.replace(/^\ufeff/, "").replaceAll("\r\n", "\n");
  const [block, yaml] = /^---[ \t]*\n([\s\S]{0,16384}?)(?:\n|^)---[ \t]*(?:\n|$)/.exec(whole) ?? [];
  // A single line may be a ruler; front matter has a field below it.
  if (block === undefined || yaml === undefined)
    return { facts: {}, body: whole, broken: /^---[ \t]*\n[ \t]*[\w-]{1,100}:(?:[ \t]|\n|$)/.test(whole) };
  const facts = readFacts(yaml);
  return { facts: facts ?? {}, body: whole.slice(block.length), broken: facts === undefined };
}

function readFacts(yaml: string): Record<string, unknown> | undefined {
  try {
    // Aliases could expand to gigabytes.
    const facts: unknown = parseYaml(yaml, { maxAliasCount: 0, schema: "core", logLevel: "error" });
    if (facts === null) return {};
    return typeof facts === "object" && !Array.isArray(facts)
      ? (facts as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Trims and cuts a text; undefined when empty. */
export function parseText(value: unknown, maxLength: number): string | undefined {
  return typeof value === "string" ? value.trim().slice(0, maxLength) || undefined : undefined;
}

/** Reads a list or comma-separated words; cuts each. */
export function readList(
  value: unknown,
  { maxItems, maxLength }: { maxItems: number; maxLength: number },
): string[] {
  const list = typeof value === "string" ? value.split(",") : Array.isArray(value) ? value : [];
  return list
    .flatMap((item) => parseText(typeof item === "number" ? String(item) : item, maxLength) ?? [])
    .slice(0, maxItems);
}

export function isText(value: unknown): boolean {
  return typeof value === "string";
}

export function isList(value: unknown): boolean {
  return (
    isText(value) || (Array.isArray(value) && value.every((item) => isText(item) || typeof item === "number"))
  );
}

/** Fields with a value of the wrong kind; null is always fine. */
export function wrongFields(
  facts: Readonly<Record<string, unknown>>,
  kinds: Readonly<Record<string, (value: unknown) => boolean>>,
): string[] {
  return Object.entries(kinds).flatMap(([field, fits]) => {
    const value = Object.hasOwn(facts, field) ? facts[field] : null;
    return value === null || value === undefined || fits(value) ? [] : [field];
  });
}
