import { readFileSync } from "node:fs";
import { Compile, type Validator } from "typebox/schema";
import type { Json } from "./platform.ts";

/** The published event schema (the reference's `Event-Output`). It refuses unknown fields. */
const published = JSON.parse(readFileSync(new URL("../fixtures/event-schema.json", import.meta.url), "utf8"));
const ofKind = new Map<string, Validator>();

/**
 * Returns what is wrong with a stored or sent event of the kind it claims to be. Actions of a
 * client's own tools are not checked: the client defines their shape.
 */
export function eventProblems(event: Json): string[] {
  const kind = String(event.kind);
  const definition = `${kind}-Output`;
  if (!Object.hasOwn(published.$defs, definition)) return [`${kind} is not a published kind`];
  if (!ofKind.has(kind)) ofKind.set(kind, Compile({ $ref: `#/$defs/${definition}`, $defs: published.$defs }));
  const ofClient = String(event.action?.kind).startsWith("ClientAction_");
  const validator = ofKind.get(kind)!;
  const checked = ofClient ? { ...event, action: null } : event;
  const found = validator.Check(checked)
    ? []
    : validator
        .Errors(checked)[1]
        .map(
          ({ instancePath, message, params }) =>
            `${kind}${instancePath}: ${message} ${JSON.stringify(params)}`,
        );
  return [...found, ...nulls(event).map((path) => `${kind}${path} is null`)];
}

/**
 * Paths of nulls, which older clients cannot read (legacy-gui.md section 0, fact 9). Values of
 * state updates are free-form: a client's own agent is shown as it was given.
 */
function nulls(value: unknown, path = ""): string[] {
  if (value === null) return [path];
  if (typeof value !== "object") return [];
  return Object.entries(value as Json).flatMap(([key, item]) =>
    path === "" && key === "value" ? [] : nulls(item, `${path}/${key}`),
  );
}
