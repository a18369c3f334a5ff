import { parseInteger, parseQuota } from "./value-parsers.ts";

/** Environment of a process, as `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * A configuration variable: the parser, `serve --help` and docs/team/configuration.md use this
 * table.
 */
export interface Variable<T = unknown> {
  name: `SANDPIPER_${string}`;
  /** A sentence without its full stop. */
  description: string;
  /** The default as documentation shows it. */
  defaultText: string;
  defaultValue(env: Environment): T;
  /** Completes the sentence "must be …". */
  must: string;
  /** Parses a non-empty text; undefined when it is invalid. */
  parse(text: string): T | undefined;
  /** The value is never shown, not even when it is invalid. */
  secret?: boolean;
}

export const mebibyte = 1024 * 1024;
export const gibibyte = 1024 * mebibyte;
export const sizeMust = "a number of bytes, or one with the suffix K, M, G or T";

/** The forms of a whole number. */
export function wholeNumber(from: number, to: number): Pick<Variable<number>, "must" | "parse"> {
  return { must: `a whole number from ${from} to ${to}`, parse: (text) => parseInteger(text, from, to) };
}

export function defineVariable<T>(definition: Variable<T>): Variable<T> {
  return definition;
}

/** A number of bytes, by default `gigabytes` GiB; 0 is no limit. */
export function defineQuota(
  name: Variable<number>["name"],
  description: string,
  gigabytes: number,
): Variable<number> {
  return {
    name,
    description,
    defaultText: gigabytes === 0 ? "0" : `${gigabytes}G`,
    defaultValue: () => gigabytes * gibibyte,
    must: `0, or ${sizeMust}, from 1M to 16T`,
    parse: parseQuota,
  };
}
