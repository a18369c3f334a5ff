import { readFileSync } from "node:fs";
import { findClosestName } from "@sandpiper/core/closest-name";
import { describeFileFailure } from "@sandpiper/core/describe-file-failure";
import { PlatformError } from "@sandpiper/core/errors";
import { findJsonFault } from "@sandpiper/core/json-fault";
import { type Static, type TSchema, Type } from "typebox";
import { Compile } from "typebox/compile";
import type { TLocalizedValidationError } from "typebox/error";
import { usualCapabilities } from "./capabilities.ts";

const strict = { additionalProperties: false };
const absolutePath = "^/[^\\0]*$";
const variableName = "^[A-Za-z_][A-Za-z0-9_]*$";
const specId = "^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}$";
const method = "^[A-Za-z]{1,32}$";
const headerName = "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$";
const typeNames: Record<string, string> = {
  string: "a text",
  integer: "a whole number",
  number: "a number",
  array: "a list",
  object: "an object",
};
/** Texts after "must be" for patterns. */
const meanings: Record<string, string> = {
  [absolutePath]: "an absolute path",
  [variableName]: "the name of an environment variable",
  [specId]: "1 to 255 letters, digits, and . _ : / @ -",
  [method]: "an HTTP method",
  [headerName]: "the name of a header",
};

const Text = Type.String({ minLength: 1, maxLength: 4_096, pattern: "^[^\\0]*$" });
const VariableName = Type.String({ pattern: variableName, maxLength: 256 });
const Path = Type.String({ pattern: absolutePath, maxLength: 4_096 });
const Size = Type.Union([Text, Type.Integer({ minimum: 1 })]);
const Rule = Type.Union([
  Text,
  Type.Object(
    {
      host: Text,
      ports: Type.Optional(Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }), { minItems: 1 })),
      methods: Type.Optional(Type.Array(Type.String({ pattern: method }), { minItems: 1 })),
    },
    strict,
  ),
]);

const Network = Type.Object(
  {
    mode: Type.Optional(Type.Enum(["none", "allowlist", "open"])),
    allow: Type.Optional(Type.Array(Rule)),
    credentials: Type.Optional(
      Type.Array(
        Type.Object(
          {
            name: VariableName,
            hosts: Type.Array(Text, { minItems: 1 }),
            from_env: VariableName,
            headers: Type.Optional(Type.Array(Type.String({ pattern: headerName }))),
          },
          strict,
        ),
      ),
    ),
    private: Type.Optional(Type.Array(Text)),
  },
  strict,
);

/** A configured spec (docs/team/sandboxes.md). */
const WrittenSpec = Type.Object(
  {
    id: Type.String({ pattern: specId }),
    image: Type.Optional(Text),
    folder: Type.Optional(Path),
    command: Type.Optional(
      Type.Union([Type.Null(), Type.Array(Type.String({ pattern: "^[^\\0]*$" }), { minItems: 1 })]),
    ),
    initial_env: Type.Optional(Type.Record(VariableName, Type.String({ pattern: "^[^\\0]*$" }), strict)),
    working_dir: Type.Optional(Path),
    user: Type.Optional(Type.Union([Text, Type.Integer({ minimum: 0 })])),
    capabilities: Type.Optional(Type.Array(Type.Enum([...usualCapabilities]))),
    limits: Type.Optional(
      Type.Object(
        {
          memory: Type.Optional(Size),
          cpus: Type.Optional(Type.Number({ minimum: 0.01 })),
          pids: Type.Optional(Type.Integer({ minimum: 16 })),
          disk: Type.Optional(Size),
        },
        strict,
      ),
    ),
    network: Type.Optional(Network),
  },
  strict,
);

const SpecsFile = Type.Object({ specs: Type.Array(WrittenSpec, { minItems: 1, maxItems: 1_000 }) }, strict);

export type WrittenSpec = Static<typeof WrittenSpec>;
export type WrittenNetwork = Static<typeof Network>;

const validator = Compile(SpecsFile);

/** The specs of a file in order. Throws ConfigInvalid with the invalid field. */
export function readSpecsFile(file: string): WrittenSpec[] {
  let value: unknown;
  let text = "";
  try {
    text = readFileSync(file, "utf8");
    value = JSON.parse(text);
  } catch (error) {
    const reason =
      error instanceof SyntaxError
        ? `is not JSON: see ${findJsonFault(text)}`
        : `cannot be read: ${describeFileFailure(error)}`;
    throw new PlatformError("SpecsFileUnreadable", { file, reason });
  }
  if (validator.Check(value)) return value.specs;
  const { path, problem } = findInnermost(validator.Errors(value));
  throw toSpecError(file, path, problem);
}

/** The innermost error: among the alternatives of a field it belongs to the intended one. */
function findInnermost(errors: TLocalizedValidationError[]): { path: string; problem: string } {
  const plain = errors.filter(({ keyword }) => keyword !== "anyOf" && keyword !== "not");
  const depth = ({ instancePath }: TLocalizedValidationError) => instancePath.split("/").length;
  const first = plain.toSorted((a, b) => depth(b) - depth(a))[0]!;
  const types = plain.filter(
    ({ keyword, instancePath }) => keyword === "type" && instancePath === first.instancePath,
  );
  const forms = types.map(({ params }) => typeNames[(params as { type: string }).type] ?? "null");
  return {
    path: toPath(first),
    problem:
      (forms.length > 0 ? `must be ${forms.join(" or ")}` : describeProblem(first)) +
      (first.keyword === "boolean" ? suggestField(first.instancePath) : ""),
  };
}

/** The error of a field such as `specs[0].image`; `problem` follows the path. */
export function toSpecError(file: string, path: string, problem: string): PlatformError {
  return new PlatformError("SpecsFileInvalid", {
    file,
    path: path || "the whole",
    problem: problem.replace(/\.$/, ""),
  });
}

/** The field that an unknown one probably means. */
function suggestField(instancePath: string): string {
  const path = instancePath.split("/").slice(1);
  const unknown = path.pop() ?? "";
  let schemas: TSchema[] = [SpecsFile];
  const flat = (schema: TSchema): TSchema[] =>
    "anyOf" in schema ? (schema.anyOf as TSchema[]).flatMap(flat) : [schema];
  const fields = (schema: TSchema) => ("properties" in schema ? (schema.properties as object) : {});
  for (const key of path)
    schemas = schemas.flatMap((schema) => {
      const next = "items" in schema ? schema.items : (fields(schema) as Record<string, unknown>)[key];
      return next ? flat(next as TSchema) : [];
    });
  const meant = findClosestName(
    unknown,
    schemas.flatMap((schema) => Object.keys(fields(schema))),
  );
  return meant === undefined ? "" : `; did you mean ${meant}?`;
}

function toPath({ instancePath }: TLocalizedValidationError): string {
  return instancePath
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"))
    .map((key, index) => (/^\d+$/.test(key) ? `[${key}]` : `${index > 0 ? "." : ""}${key}`))
    .join("");
}

function describeProblem({ keyword, params, message }: TLocalizedValidationError): string {
  const given = params as Record<string, unknown>;
  if (keyword === "minItems") return "must not be empty";
  if (keyword === "boolean") return "is unknown";
  if (keyword === "pattern")
    return `must be ${meanings[String(given.pattern)] ?? "a text without NUL characters"}`;
  if (keyword === "required") return `lacks the field ${[given.requiredProperties].flat().join(", ")}`;
  if (keyword === "enum") return `must be one of ${[given.allowedValues].flat().join(", ")}`;
  return message;
}
