import type { Content, Observation } from "@sandpiper/wire";

/** What stands in the place of a secret (agent-behaviour.md section 10). */
export const hiddenSecret = "<secret-hidden>";

/** Takes the values of secrets out of what tools, hooks and servers give (agent-behaviour.md section 10). */
export interface OutputMask {
  text(text: string): string;
  /** Output of the terminal. `more`: the next one goes on where this one ends, perhaps in the middle of a secret. */
  terminal(text: string, more: boolean): string;
  /** For a text that comes in pieces: gives what can be shown of each, and at the end the rest. */
  stream(): { write(piece: string): string; end(): string };
}

/** Knows no secret. */
export const noMask: OutputMask = {
  text: (text) => text,
  terminal: (text) => text,
  stream: () => ({ write: (piece) => piece, end: () => "" }),
};

/** Fields whose values clients know a list of, such as the kind of an observation: no secret stands there. */
const fixedFields = new Set(["kind", "type", "status", "role"]);
const fixedCommand = /^[a-z_]{1,11}$/;
/** Shorter names of fields are those of the schemas. */
const minKey = 24;

/** A value with every text in it masked, keys of objects too. The value itself where nothing is known. */
export function maskDeep<T>(value: T, mask: OutputMask): T {
  if (mask === noMask) return value;
  return masked(value, "", mask) as T;
}

/** What a tool gave, as it may be stored and shown. */
export function maskObservation<O extends Observation>(observation: O, mask: OutputMask): O {
  if (mask === noMask) return observation;
  const { content, ...rest } = observation;
  if (observation.kind !== "TerminalObservation")
    return { ...maskDeep(rest, mask), content: maskContent(content, mask) } as unknown as O;
  const more = observation.exit_code === -1;
  const shown = content.map((part) =>
    part.type === "text" ? { ...part, text: mask.terminal(part.text, more) } : part,
  );
  return { ...maskDeep(rest, mask), content: shown } as O;
}

/** Texts that follow each other are read as one: a secret may begin in one and end in the next. */
function maskContent(content: readonly Content[], mask: OutputMask): Content[] {
  const texts = content.flatMap((part) => (part.type === "text" ? [part.text] : []));
  const shown = texts.map((text) => mask.text(text));
  const isSplit = texts.length > 1 && mask.text(texts.join("")) !== shown.join("");
  const stream = mask.stream();
  let index = 0;
  return content.map((part) => {
    if (part.type !== "text") return maskDeep(part, mask);
    const piece = texts[index]!;
    const text = isSplit
      ? stream.write(piece) + (index === texts.length - 1 ? stream.end() : "")
      : shown[index]!;
    index++;
    return { ...part, text };
  });
}

function masked(value: unknown, name: string, mask: OutputMask): unknown {
  if (typeof value === "string") {
    const fixed = fixedFields.has(name) || (name === "command" && fixedCommand.test(value));
    return fixed ? value : mask.text(value);
  }
  if (Array.isArray(value)) return value.map((item) => masked(item, "", mask));
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).map(([key, item]) => [
    key.length < minKey ? key : mask.text(key),
    masked(item, key, mask),
  ]);
  return Object.fromEntries(members);
}
