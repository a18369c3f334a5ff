import { text as readText } from "node:stream/consumers";
import { findClosestName } from "@sandpiper/core/closest-name";
import { SettingsUpdate, type SettingsView } from "@sandpiper/wire";
import { Refusal } from "./client.ts";
import { connect } from "./connect.ts";
import { CliError, exitCodes } from "./errors.ts";
import { inertJson, inertLine } from "./inert.ts";
import { askHidden } from "./line-editor/ask-hidden.ts";

/** Whether a field of the answer is no setting. */
export function isDescribed(field: string): boolean {
  return field === "secrets_store" || field === "provider_tokens_set";
}

/** `sandpiper settings get`: one setting, or all that have a value. */
export async function getSettings(name: string | undefined, { json }: { json?: boolean }): Promise<void> {
  const { client, close } = await connect();
  try {
    const all: Partial<SettingsView> = await client.json("GET", "/api/settings");
    for (const field of Object.keys(all)) if (isDescribed(field)) delete all[field as keyof SettingsView];
    if (name !== undefined) {
      if (!Object.hasOwn(all, name)) throw unknown(name, Object.keys(all));
      const value = all[name as keyof SettingsView];
      process.stdout.write(`${json ? inertJson(value) : format(value)}\n`);
    } else if (json) process.stdout.write(`${inertJson(all, 2)}\n`);
    else
      for (const [field, value] of Object.entries(all))
        if (value !== null) process.stdout.write(`${field}=${format(value)}\n`);
  } finally {
    await close();
  }
}

/**
 * `sandpiper settings set`: a value that is not given is asked for without echo, or read from
 * standard input, so that a key is in no history of a shell.
 */
export async function setSetting(name: string, given: string | undefined): Promise<void> {
  const schema = (SettingsUpdate.properties as Record<string, object>)[name];
  if (!schema) throw unknown(name, Object.keys(SettingsUpdate.properties));
  const text = given ?? (process.stdin.isTTY ? await askHidden(`${name}: `) : await readText(process.stdin));
  if (text === undefined) throw new CliError("Interrupted.", { exitCode: exitCodes.interrupted });
  const value = given === undefined ? text.trim() : text;
  const { client, close } = await connect();
  try {
    const json = { [name]: acceptsText(schema) ? value : parseValue(name, value, schema) };
    await client.json("POST", "/api/settings", { json }).catch((error: Error) => {
      throw error instanceof Refusal && error.status === 422 ? describeRefusal(name, error) : error;
    });
  } finally {
    await close();
  }
}

function format(value: unknown): string {
  return typeof value === "string" ? inertLine(value) : inertJson(value);
}

/** Whether a schema, or a part of its union, is a text. */
function acceptsText(schema: object): boolean {
  const { type, enum: values, anyOf } = schema as { type?: unknown; enum?: unknown[]; anyOf?: object[] };
  return type === "string" || values !== undefined || (anyOf?.some(acceptsText) ?? false);
}

/** A number, true, false or null; JSON for lists and objects. */
function parseValue(name: string, text: string, schema: object): unknown {
  if (text === "") return null;
  try {
    return JSON.parse(text);
  } catch {
    throw new CliError(`${name} takes ${describeForms(schema)}, not ${inertJson(text)}.`, {
      exitCode: exitCodes.usage,
    });
  }
}

const formNames: Readonly<Record<string, string>> = {
  boolean: "true or false",
  integer: "a whole number",
  number: "a number",
  null: "",
};

/** What a value may be, for people. */
function describeForms(schema: object): string {
  const { type, anyOf } = schema as { type?: string; anyOf?: object[] };
  const types = anyOf ? anyOf.map((part) => (part as { type?: string }).type) : [type];
  const names = types.map((each) => formNames[each ?? ""] ?? "JSON").filter(Boolean);
  return [...new Set(names)].join(" or ") || "JSON";
}

/** The server's reason without the place in the request, which is not what the user wrote. */
function describeRefusal(name: string, { detail }: Refusal): CliError {
  const reason = detail.replace(/^[\w.]+: /, "").replace(/\.?$/, ".");
  return new CliError(`The setting ${name} is refused: ${reason}`, { exitCode: exitCodes.usage });
}

function unknown(name: string, names: readonly string[]): CliError {
  const meant = findClosestName(name, names);
  const hint = meant === undefined ? "" : ` Did you mean ${meant}?`;
  return new CliError(
    `There is no setting ${inertJson(name)}.${hint} "sandpiper settings get --json" lists all.`,
    { exitCode: exitCodes.usage },
  );
}
