import { Compile } from "typebox/compile";
import type { JsonSchema, OpenApiDocument, Operation, Response } from "../../src/http/openapi/schema.ts";
import type { Answer } from "./client.ts";
import type { FuzzRequest } from "./requests.ts";

/** Checks answers against the document: their status, content type and body must be documented. */
export class AnswerChecks {
  readonly #document: OpenApiDocument;
  readonly #slowMs: number;
  readonly #validators = new Map<JsonSchema, ReturnType<typeof Compile>>();

  /** `slowMs`: longest time an answer may take, ms. */
  constructor(document: OpenApiDocument, slowMs: number) {
    this.#document = document;
    this.#slowMs = slowMs;
  }

  /** The problems of an answer. */
  problems(
    { operation, method }: Pick<FuzzRequest, "operation" | "method">,
    { status, headers, text, ms }: Answer,
  ): string[] {
    const problems: string[] = [];
    if (status === 500) problems.push("500");
    if (ms > this.#slowMs) problems.push("slow");
    const response = this.#response(operation, status);
    if (!response) return [...problems, `undocumented ${status}`];
    const content = response.content ?? {};
    const type = headers["content-type"]?.split(";", 1)[0];
    if (status === 204 || method === "HEAD" || Object.keys(content).length === 0) return problems;
    const media = content[type ?? ""] ?? content["*/*"];
    if (!media && !("application/octet-stream" in content))
      return [...problems, `${status} with the content type ${type}`];
    if (media && type === "application/json")
      problems.push(...this.#mismatches(media.schema, text).map((one) => `${status}: ${one}`));
    return problems;
  }

  #response({ responses }: Operation, status: number): Response | undefined {
    const found = responses[status];
    const name = found?.$ref?.split("/").at(-1);
    return name === undefined ? found : this.#document.components.responses[name];
  }

  #mismatches(schema: JsonSchema, text: string): string[] {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return ["no JSON"];
    }
    let validator = this.#validators.get(schema);
    if (!validator) {
      validator = Compile(this.#inlined(schema));
      this.#validators.set(schema, validator);
    }
    if (validator.Check(value)) return [];
    return validator
      .Errors(value)
      .slice(0, 2)
      .map(({ instancePath, message }) => `${instancePath} ${message}`);
  }

  /** A schema with its references replaced by components. */
  #inlined(schema: JsonSchema): JsonSchema {
    return JSON.parse(JSON.stringify(schema), (_key, value) => {
      const name = (value as JsonSchema | null)?.$ref?.split("/").at(-1);
      return name === undefined ? value : this.#inlined(this.#document.components.schemas[name]!);
    });
  }
}
