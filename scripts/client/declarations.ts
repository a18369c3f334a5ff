/** A JSON schema, as far as the schemas of the wire use it. */
export interface Schema {
  type?: string;
  const?: unknown;
  enum?: readonly unknown[];
  anyOf?: readonly Schema[];
  allOf?: readonly Schema[];
  items?: Schema;
  properties?: Readonly<Record<string, Schema>>;
  patternProperties?: Readonly<Record<string, Schema>>;
  additionalProperties?: Schema | boolean;
  required?: readonly string[];
  description?: string;
}

/**
 * TypeScript declarations of schemas, one type for each name. A schema that is named elsewhere is
 * referred to by that name; `names` gives the names that are referred to without being declared.
 */
export class Declarations {
  readonly #names: ReadonlyMap<unknown, string>;
  readonly #declared = new Map<string, string>();

  /** `named`: all schemas that may be referred to. */
  constructor(named: Readonly<Record<string, Schema>>) {
    this.#names = new Map(Object.entries(named).map(([name, schema]) => [schema, name]));
  }

  /** Declares a type, and those that it refers to. */
  add(name: string, schema: Schema): void {
    if (this.#declared.has(name)) return;
    this.#declared.set(name, "");
    this.#declared.set(name, `export type ${name} = ${this.#type(schema, true)};\n`);
  }

  toString(): string {
    return [...this.#declared.values()].join("\n");
  }

  #type(schema: Schema, isTop = false): string {
    const name = isTop ? undefined : this.#names.get(schema);
    if (name === undefined) return this.#inline(schema);
    this.add(name, schema);
    return name;
  }

  #inline(schema: Schema): string {
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
    if (schema.anyOf) return unique(schema.anyOf.map((each) => this.#type(each))).join(" | ");
    if (schema.allOf) return unique(schema.allOf.map((each) => `(${this.#type(each)})`)).join(" & ");
    if (schema.items) return `(${this.#type(schema.items)})[]`;
    if (schema.type === "object") return this.#object(schema);
    const simple = {
      integer: "number",
      number: "number",
      string: "string",
      boolean: "boolean",
      null: "null",
    };
    return simple[schema.type as keyof typeof simple] ?? (schema.type === "array" ? "unknown[]" : "unknown");
  }

  #object({ properties = {}, patternProperties = {}, additionalProperties, required = [] }: Schema): string {
    const members = Object.entries(properties).map(([name, schema]) => {
      const text =
        schema.description === undefined ? "" : `/** ${schema.description.replaceAll("*/", "* /")} */\n`;
      return `${text}${JSON.stringify(name)}${required.includes(name) ? "" : "?"}: ${this.#type(schema)};`;
    });
    const other = Object.values(patternProperties);
    if (typeof additionalProperties === "object") other.push(additionalProperties);
    if (members.length === 0 && other.length > 0)
      return `{ [name: string]: ${unique(other.map((each) => this.#type(each))).join(" | ")} }`;
    return members.length === 0 ? "{}" : `{\n${members.join("\n")}\n}`;
  }
}

const unique = (texts: readonly string[]) => [...new Set(texts)];
