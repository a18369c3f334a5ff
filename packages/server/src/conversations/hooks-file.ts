import { type ConversationHooks, hookEvents } from "@sandpiper/wire";
import { PlatformError } from "../errors.ts";

type Hooks = ConversationHooks["hooks"];
type Matcher = Hooks[number]["matchers"][number];

/** Most matchers of an event, and hooks of a matcher, that are read. */
const maxEntries = 100;

/**
 * The hooks that a `.openhands/hooks.json` holds: events in PascalCase or snake_case, bare or inside of `{"hooks": …}` (agent-behaviour.md section 9).
 * What is no hook is left out. Throws HooksUnreadable for what is no JSON object.
 */
export function parseHooks(text: string): Hooks {
  const file = parse(text);
  const events = isObject(file.hooks) ? file.hooks : file;
  const found: Hooks = [];
  for (const [name, value] of Object.entries(events)) {
    const event_type = hookEvents.find((event) => event === snakeCase(name));
    const matchers = listOf(value).flatMap(readMatcher);
    if (event_type && matchers.length > 0) found.push({ event_type, matchers });
  }
  return found;
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // It is told below.
  }
  throw new PlatformError("HooksUnreadable", "The file .openhands/hooks.json of the project is no JSON object: correct it.");
}

function readMatcher(value: unknown): Matcher[] {
  if (!isObject(value)) return [];
  const hooks = listOf(value.hooks).flatMap(readHook);
  return hooks.length > 0 ? [{ matcher: typeof value.matcher === "string" ? value.matcher : "*", hooks }] : [];
}

function readHook(value: unknown): Matcher["hooks"] {
  if (!isObject(value)) return [];
  const { type, command, prompt, timeout } = value;
  const what = typeof command === "string" ? command : typeof prompt === "string" ? prompt : undefined;
  if (what === undefined) return [];
  return [
    {
      type: type === "prompt" || type === "agent" ? type : "command",
      command: what,
      timeout: typeof timeout === "number" && Number.isSafeInteger(timeout) ? timeout : 60,
      async: value.async === true,
    },
  ];
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value.slice(0, maxEntries) : [];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** `PreToolUse` -> `pre_tool_use`. */
function snakeCase(name: string): string {
  return name.replace(/(?<=[a-z])[A-Z]/g, "_$&").toLowerCase();
}
