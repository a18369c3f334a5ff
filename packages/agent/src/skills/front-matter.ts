import { parse as parseYaml } from "yaml";

/** A Markdown file's front matter, and the text below it. */
export interface FrontMatter {
  /** Empty where there is none, or where it cannot be read. */
  facts: Record<string, unknown>;
  body: string;
  /** It is there and cannot be read, or does not end. */
  broken: boolean;
}

/** Splits a Markdown file at its front matter. Never throws: the text below broken front matter still counts. */
export function splitFrontMatter(text: string): FrontMatter {
  const whole = text.replace(/^\ufeff/, "").replaceAll("\r\n", "\n");
  const [block, yaml] = /^---[ \t]*\n([\s\S]{0,16384}?)(?:\n|^)---[ \t]*(?:\n|$)/.exec(whole) ?? [];
  // A line alone may be a rule across the page; one with a fact below it is none.
  if (block === undefined || yaml === undefined)
    return { facts: {}, body: whole, broken: /^---[ \t]*\n[ \t]*[\w-]{1,100}:(?:[ \t]|\n|$)/.test(whole) };
  const facts = readFacts(yaml);
  return { facts: facts ?? {}, body: whole.slice(block.length), broken: facts === undefined };
}

function readFacts(yaml: string): Record<string, unknown> | undefined {
  try {
    // Aliases of hostile files could unfold to gigabytes.
    const facts: unknown = parseYaml(yaml, { maxAliasCount: 0, schema: "core", logLevel: "error" });
    if (facts === null) return {};
    return typeof facts === "object" && !Array.isArray(facts)
      ? (facts as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** A text of a front matter without what surrounds it, cut; undefined where there is none. */
export function readText(value: unknown, maxLength: number): string | undefined {
  return typeof value === "string" ? value.trim().slice(0, maxLength) || undefined : undefined;
}

/** A list of a front matter, or words with commas between them, each cut. */
export function readList(
  value: unknown,
  { maxItems, maxLength }: { maxItems: number; maxLength: number },
): string[] {
  const list = typeof value === "string" ? value.split(",") : Array.isArray(value) ? value : [];
  return list
    .flatMap((item) => readText(typeof item === "number" ? String(item) : item, maxLength) ?? [])
    .slice(0, maxItems);
}

/** Whether a value is a text, or a list that `readList` reads. */
export function isText(value: unknown): boolean {
  return typeof value === "string";
}

export function isList(value: unknown): boolean {
  return (
    isText(value) || (Array.isArray(value) && value.every((item) => isText(item) || typeof item === "number"))
  );
}

/** The fields of a front matter that hold what nobody can use; nothing is fine everywhere. */
export function wrongFields(
  facts: Readonly<Record<string, unknown>>,
  kinds: Readonly<Record<string, (value: unknown) => boolean>>,
): string[] {
  return Object.entries(kinds).flatMap(([field, fits]) => {
    const value = Object.hasOwn(facts, field) ? facts[field] : null;
    return value === null || value === undefined || fits(value) ? [] : [field];
  });
}
