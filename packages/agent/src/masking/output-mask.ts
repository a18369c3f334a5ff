import type { Content, Observation } from "@sandpiper/wire";

/** Replacement of a secret (agent-behaviour.md section 10). */
export const hiddenSecret = "<secret-hidden>";

/** Masks secrets in the output of tools, hooks and servers (agent-behaviour.md section 10). */
export interface OutputMask {
  text(text: string): string;
  /** `more`: the next output continues this one, perhaps in the middle of a secret. */
  terminal(text: string, more: boolean): string;
  /** For text in chunks: `write` returns what is safe to show, `end` the rest. */
  stream(): { write(piece: string): string; end(): string };
}

export const noMask: OutputMask = {
  text: (text) => text,
  terminal: (text) => text,
  stream: () => ({ write: (piece) => piece, end: () => "" }),
};

/** Fields with a fixed set of values, which never hold a secret. */
const fixedFields = new Set(["kind", "type", "status", "role"]);
const fixedCommand = /^[a-z_]{1,11}$/;
/** Shorter keys belong to schemas. */
const minKey = 24;

/** Masks every text and long key in a value. */
export function maskDeep<T>(value: T, mask: OutputMask): T {
  if (mask === noMask) return value;
  return maskValue(value, "", mask) as T;
}

export function maskObservation<O extends Observation>(observation: O, mask: OutputMask): O {
  if (mask === noMask) return observation;
  const { content, ...rest } = observation;
  if (observation.kind !== "TerminalObservation")
    return { ...maskDeep(rest, mask), content: maskContent(content, mask) } as O;
  const more = observation.exit_code === -1;
  const shown = content.map((part) =>
    part.type === "text" ? { ...part, text: mask.terminal(part.text, more) } : part,
  );
  return { ...maskDeep(rest, mask), content: shown } as O;
}

/** Masks adjacent texts as one: a secret may span two parts. */
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

function maskValue(value: unknown, name: string, mask: OutputMask): unknown {
  if (typeof value === "string") {
    const fixed = fixedFields.has(name) || (name === "command" && fixedCommand.test(value));
    return fixed ? value : mask.text(value);
  }
  if (Array.isArray(value)) return value.map((item) => maskValue(item, "", mask));
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).map(([key, item]) => [
    key.length < minKey ? key : mask.text(key),
    maskValue(item, key, mask),
  ]);
  return Object.fromEntries(members);
}
