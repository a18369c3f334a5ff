import { stripUnknownFields } from "@sandpiper/core/strip-unknown-fields";
import type { FastifySchemaCompiler } from "fastify";
import type { TSchema } from "typebox";
import { Compile, type Validator } from "typebox/compile";
import type { TLocalizedValidationError } from "typebox/error";
import { cutMaps } from "./cut-maps.ts";
import { InvalidInput, type Issue } from "./invalid-input.ts";
import { selectBranchErrors } from "./union-errors.ts";

const parts: Record<string, string> = {
  body: "body",
  querystring: "query",
  params: "path",
  headers: "header",
};

/**
 * Fastify's validator over TypeBox. Unknown keys of bodies are dropped; texts of query and path are
 * converted to the types of the schema. Errors are InvalidInput.
 */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  // Compiled on first use: there are hundreds, and a server needs few of them.
  let compiled: Validator | undefined;
  const validator = () => (compiled ??= Compile(schema));
  const part = parts[httpPart ?? "body"] ?? "body";
  const optional = (schema as { default?: unknown }).default !== undefined;
  return (data: unknown) => {
    if (part !== "body") {
      const texts = convertTexts(schema, data as Record<string, unknown>);
      const nul = Object.keys(texts).find((name) =>
        [texts[name]].flat().some((text) => String(text).includes("\0")),
      );
      if (nul === undefined) return check(validator(), texts, part);
      return {
        error: new InvalidInput([
          { loc: [part, nul], msg: "Input holds a NUL character", type: "string_type" },
        ]),
      };
    }
    // Fastify passes null for a missing body; the parser rejects a literal null.
    if (data === null && optional) return { value: {} };
    if (data === null)
      return { error: new InvalidInput([{ loc: ["body"], msg: "Field required", type: "missing" }]) };
    return check(validator(), data, part);
  };
};

function check(validator: Validator, value: unknown, part: string): { value: unknown } | { error: Error } {
  // Maps with too many members are not looked at as a whole.
  const cut = cutMaps(validator.Type(), value);
  const refuse = (faulty: unknown) => ({
    error: new InvalidInput(toIssues(validator.Errors(faulty), part)),
  });
  if (!validator.Check(cut)) return refuse(cut);
  if (cut !== value && !validator.Check(value)) return refuse(value);
  return { value: part === "body" ? stripUnknownFields(validator.Type(), value) : value };
}

/** Converts validation errors to issues; `part` begins their `loc`. */
export function toIssues(errors: readonly TLocalizedValidationError[], part: string): Issue[] {
  const real = selectBranchErrors(errors).filter(
    (error) => !["anyOf", "additionalProperties"].includes(error.keyword) && !isNullBranch(error),
  );
  const issues = (real.length > 0 ? real : errors).flatMap((error) => convertError(error, part));
  const seen = new Set<string>();
  return issues.filter((issue) => {
    const key = JSON.stringify([issue.loc, issue.type, issue.msg]);
    return !seen.has(key) && seen.add(key);
  });
}

function isNullBranch(error: TLocalizedValidationError): boolean {
  return error.keyword === "type" && (error.params as { type: unknown }).type === "null";
}

function convertError(error: TLocalizedValidationError, part: string): Issue[] {
  const keys = error.instancePath.split("/").slice(1).map(unescapePointer);
  const loc = [part, ...keys.map((key) => (/^\d+$/.test(key) ? Number(key) : key))];
  const params = error.params as Record<string, unknown>;
  switch (error.keyword) {
    case "required":
      return (params.requiredProperties as string[]).map((key) => ({
        loc: [...loc, key],
        msg: "Field required",
        type: "missing",
      }));
    case "type":
      return [typeIssue(loc, String(params.type))];
    case "enum":
      return [{ loc, msg: `Input should be one of ${list(params.allowedValues)}`, type: "enum" }];
    case "const":
      return [{ loc, msg: `Input should be ${JSON.stringify(params.allowedValue)}`, type: "literal_error" }];
    case "boolean":
      return [{ loc, msg: "Extra inputs are not permitted", type: "extra_forbidden" }];
    default:
      return [{ loc, msg: `Input ${error.message}`, type: keywordTypes[error.keyword] ?? error.keyword }];
  }
}

const keywordTypes: Record<string, string> = {
  minimum: "greater_than_equal",
  maximum: "less_than_equal",
  minLength: "string_too_short",
  maxLength: "string_too_long",
  minItems: "too_short",
  maxItems: "too_long",
  anyOf: "union_error",
};

const typeNames: Record<string, [string, string]> = {
  string: ["string_type", "Input should be a valid string"],
  integer: ["int_type", "Input should be a valid integer"],
  number: ["float_type", "Input should be a valid number"],
  boolean: ["bool_type", "Input should be a valid boolean"],
  array: ["list_type", "Input should be a valid list"],
  object: ["dict_type", "Input should be a valid object"],
};

function typeIssue(loc: (string | number)[], type: string): Issue {
  const [name, msg] = typeNames[type] ?? ["type_error", `Input should be ${type}`];
  return { loc, msg, type: name };
}

function list(values: unknown): string {
  return Array.isArray(values)
    ? values.map((value) => JSON.stringify(value)).join(", ")
    : "the allowed values";
}

function unescapePointer(key: string): string {
  return key.replaceAll("~1", "/").replaceAll("~0", "~");
}

interface TextSchema {
  type?: string;
  default?: unknown;
  properties?: Record<string, TextSchema>;
}

/**
 * Converts query and path values to the schema's types. The last value of a repeated key counts,
 * unless the schema is a list.
 */
function convertTexts(schema: TSchema, texts: Record<string, unknown>): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [name, property] of Object.entries((schema as TextSchema).properties ?? {})) {
    const given = texts[name];
    const all = given === undefined ? [] : Array.isArray(given) ? given : [given];
    if (all.length === 0) {
      if (property.default !== undefined) result[name] = property.default;
    } else {
      result[name] = property.type === "array" ? all : convertText(String(all.at(-1)), property.type);
    }
  }
  return result;
}

function convertText(text: string, type: string | undefined): unknown {
  if (type === "integer" || type === "number")
    return /^\s*[+-]?\d+(\.\d+)?\s*$/.test(text) ? Number(text) : text;
  if (type === "boolean") {
    if (/^(true|1|yes|on|t|y)$/i.test(text)) return true;
    if (/^(false|0|no|off|f|n)$/i.test(text)) return false;
  }
  return text;
}
