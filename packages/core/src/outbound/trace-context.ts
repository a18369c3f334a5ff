/** The caller's place in a distributed trace, as the two headers of W3C Trace Context. */
export interface TraceContext {
  traceparent: string;
  tracestate?: string;
}

const parentForm = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-|$)/;

/** The part of a `traceparent` of a newer version that this version knows, characters. */
const parentLength = 55;

/** Characters of a `tracestate`, its members, and characters of a key or value. */
const maxStateLength = 512;
const maxMembers = 32;
const maxPartLength = 256;

const memberForm = /^([a-z0-9][a-z0-9_*/@-]*)=([\x20-\x2b\x2d-\x3c\x3e-\x7e]+)$/;

/**
 * Undefined without a valid `traceparent`, which then counts as absent, as the standard demands. An
 * invalid or too long `tracestate` is left out.
 */
export function parseTraceContext(
  parent: string | null | undefined,
  state?: string | null,
): TraceContext | undefined {
  const text = parent?.trim() ?? "";
  if (!parentForm.test(text) || (text.startsWith("00") && text.length !== parentLength)) return undefined;
  const tracestate = parseState(state ?? "");
  // A newer version is passed on in the form that this one knows.
  const traceparent = `00${text.slice(2, parentLength)}`;
  return { traceparent, ...(tracestate && { tracestate }) };
}

function parseState(text: string): string | undefined {
  if (text.length > maxStateLength) return undefined;
  const members = text
    .split(",")
    .map((member) => member.trim())
    .filter((member) => member !== "");
  const keys = new Set<string>();
  for (const member of members) {
    const [, key, value] = memberForm.exec(member) ?? [];
    if (!key || !value || key.length > maxPartLength || value.length > maxPartLength) return undefined;
    keys.add(key);
  }
  return keys.size === members.length && keys.size <= maxMembers ? members.join(",") : undefined;
}
