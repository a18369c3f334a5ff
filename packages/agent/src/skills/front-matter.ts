import { createHash } from "node:crypto";
import { isScalar, parseDocument, visit } from "yaml";

/**
 * Most tokens of a front matter, and of all front matter that one load parses: lines, and the
 * characters that mean something in YAML. The parser's time is proportional to them.
 */
const maxTokens = 2_000;
const maxLoadTokens = 20_000;
const token = /[[\]{},:?&*!|>'"%@`#\n-]/g;

/** Most front matter that is kept for the next load. */
const maxKept = 500;

type Facts = Readonly<Record<string, unknown>>;

/** A Markdown file's front matter, and the text below it. */
export interface FrontMatter {
  /** Empty when missing or invalid. */
  facts: Facts;
  body: string;
  /** The front matter exists, but is invalid or has no end. */
  broken: boolean;
}

/** Parsed front matter by its digest, so that the same files are parsed once. */
export class FrontMatterCache {
  readonly #known = new Map<string, { facts: Facts | undefined }>();

  /** What a YAML text says, or what `parse` returns for it the first time. */
  get(yaml: string, parse: () => Facts | undefined): Facts | undefined {
    const digest = createHash("sha256").update(yaml).digest("base64");
    const known = this.#known.get(digest) ?? { facts: deepFreeze(parse()) };
    if (this.#known.size >= maxKept) this.#known.clear();
    this.#known.set(digest, known);
    return known.facts;
  }
}

/** Splits the Markdown files of one load, whose front matter shares a bound on tokens. */
export class FrontMatterReader {
  readonly #cache: FrontMatterCache;
  #tokensLeft = maxLoadTokens;

  constructor(cache = new FrontMatterCache()) {
    this.#cache = cache;
  }

  /** Never throws: the text below broken front matter still counts. */
  split(text: string): FrontMatter {
    const { yaml, body, broken } = cutFrontMatter(text);
    if (yaml === undefined) return { facts: {}, body, broken };
    const count = yaml.match(token)?.length ?? 0;
    if (count > maxTokens) return { facts: {}, body, broken: true };
    try {
      const facts = this.#cache.get(yaml, () => {
        this.#tokensLeft -= count;
        if (this.#tokensLeft < 0) throw new RangeError("The bound of the load is exceeded.");
        return readFacts(yaml);
      });
      return { facts: facts ?? {}, body, broken: facts === undefined };
    } catch {
      return { facts: {}, body, broken: true };
    }
  }
}

function cutFrontMatter(text: string): { yaml: string | undefined; body: string; broken: boolean } {
  const whole = text.replace(/^\ufeff/, "").replaceAll("\r\n", "\n");
  const [block, yaml] = /^---[ \t]*\n([\s\S]{0,16384}?)(?:\n|^)---[ \t]*(?:\n|$)/.exec(whole) ?? [];
  // A single line may be a ruler; front matter has a field below it.
  if (block === undefined || yaml === undefined)
    return {
      yaml: undefined,
      body: whole,
      broken: /^---[ \t]*\n[ \t]*[\w-]{1,100}:(?:[ \t]|\n|$)/.test(whole),
    };
  return { yaml, body: whole.slice(block.length), broken: false };
}

function readFacts(yaml: string): Facts | undefined {
  try {
    const document = parseDocument(yaml, { schema: "core", logLevel: "error", prettyErrors: false });
    let isPlain = document.errors.length === 0;
    // A key that is a list or map is written as text, in time exponential in its nesting.
    visit(document, {
      Pair(_, { key }) {
        isPlain &&= key === null || isScalar(key);
      },
    });
    if (!isPlain) return undefined;
    // Aliases could expand to gigabytes.
    const facts: unknown = document.toJS({ maxAliasCount: 0 });
    if (facts === null) return {};
    return typeof facts === "object" && !Array.isArray(facts) ? (facts as Facts) : undefined;
  } catch {
    return undefined;
  }
}

/** A kept value is shared by all who read it. */
function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null) return value;
  for (const item of Object.values(value)) deepFreeze(item);
  return Object.freeze(value);
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
