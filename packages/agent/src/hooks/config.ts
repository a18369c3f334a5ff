import { isObject } from "@sandpiper/core/is-object";
import { findJsonFault } from "@sandpiper/core/json-fault";
import { hookEvents } from "@sandpiper/wire";
import { isMatcher } from "./matcher.ts";

/** Event names in PascalCase; clients also use snake_case. */
export type HookEvent = (typeof hookEvents)[number];

/** One hook (agent-behaviour.md section 9). */
export interface HookDefinition {
  type: "command" | "prompt" | "agent";
  /** Shell command, or the question of the other types. */
  command: string;
  /** Replaces our instructions to a prompt hook's model. */
  systemPrompt?: string;
  /** Seconds. */
  timeout: number;
  /** Runs in the background and decides nothing. Commands only. */
  async: boolean;
  /** Folder of the plugin that has it. */
  plugin?: string;
}

type Report = (sentence: string) => void;

/** Hooks by event, with their tool matchers, in execution order. */
export type HookConfig = { [event in HookEvent]?: HookMatcher[] };

export interface HookMatcher {
  matcher: string;
  hooks: HookDefinition[];
}

/** Matchers per event, hooks per matcher, characters of a command, seconds of a hook. */
const maxEntries = 100;
const maxCommand = 30_000;
const maxTimeout = 600;

/**
 * Parses a configuration: events in PascalCase or snake_case, optionally inside `{"hooks": …}`.
 * Invalid hooks are skipped and reported. Undefined when it is not an object.
 */
export function toHookConfig(
  value: unknown,
  plugin?: string,
  report: Report = () => {},
): HookConfig | undefined {
  if (!isObject(value)) return undefined;
  const events = isObject(value.hooks) ? value.hooks : value;
  const config: HookConfig = {};
  for (const [name, entries] of Object.entries(events)) {
    const event = hookEvents.find((candidate) => candidate === snakeCase(name));
    const matchers = toList(entries).flatMap((one) => readMatcher(one, plugin));
    // Other keys, such as a version, are not lists.
    if (!event && Array.isArray(entries))
      report(`There is no event ${name.slice(0, 100)} for hooks: ${hookEvents.join(", ")}.`);
    if (event && hasInvalidEntries(entries, matchers))
      report(`Not all hooks of ${name} can be read, and those that cannot are not run.`);
    for (const { matcher } of matchers)
      if (event?.endsWith("_tool_use") && !isMatcher(matcher))
        report(
          `A matcher of ${name} is no expression, so its hooks are run for no tool: ${matcher.slice(0, 100)}`,
        );
    if (event && matchers.length > 0) config[event] = [...(config[event] ?? []), ...matchers];
  }
  return config;
}

/** Parses a `.openhands/hooks.json`. Undefined when it is not a JSON object. */
export function parseHookConfig(text: string, plugin?: string, report?: Report): HookConfig | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  return toHookConfig(value, plugin, report);
}

/** Why a text is no JSON object, to follow "is". */
export function describeHooksFault(text: string): string {
  const place = findJsonFault(text);
  return place === undefined ? "not a JSON object" : `not JSON (${place})`;
}

/** Merges configurations in order. */
export function mergeHookConfigs(configs: readonly HookConfig[]): HookConfig {
  const merged: HookConfig = {};
  for (const config of configs)
    for (const event of hookEvents)
      if (config[event]) merged[event] = [...(merged[event] ?? []), ...config[event]];
  return merged;
}

/** Whether a list of matchers lost an entry. */
function hasInvalidEntries(value: unknown, read: readonly HookMatcher[]): boolean {
  if (value === null) return false;
  if (!Array.isArray(value) || value.length !== read.length) return true;
  return read.some(
    ({ hooks }, index) => (value[index] as { hooks: unknown[] }).hooks.length !== hooks.length,
  );
}

function readMatcher(value: unknown, plugin: string | undefined): HookMatcher[] {
  if (!isObject(value)) return [];
  const hooks = toList(value.hooks).flatMap((one) => readHook(one, plugin));
  return hooks.length > 0
    ? [{ matcher: typeof value.matcher === "string" ? value.matcher : "*", hooks }]
    : [];
}

function readHook(value: unknown, plugin: string | undefined): HookDefinition[] {
  if (!isObject(value)) return [];
  const { type: named, command, prompt, timeout, system_prompt: systemPrompt } = value;
  const type = named === "prompt" || named === "agent" ? named : "command";
  const texts = (type === "command" ? [command, prompt] : [prompt, command]).filter(
    (one) => typeof one === "string",
  );
  const text = texts.find((one) => one.trim() !== "");
  // A cut command would be another command.
  if (text === undefined || text.length > maxCommand) return [];
  const seconds =
    typeof timeout === "number" && Number.isFinite(timeout) && timeout > 0 ? Math.ceil(timeout) : 60;
  return [
    {
      type,
      command: text,
      ...(typeof systemPrompt === "string" &&
        systemPrompt.trim() && { systemPrompt: systemPrompt.slice(0, maxCommand) }),
      timeout: Math.min(seconds, maxTimeout),
      async: value.async === true && type === "command",
      ...(plugin !== undefined && { plugin }),
    },
  ];
}

function toList(value: unknown): unknown[] {
  return Array.isArray(value) ? value.slice(0, maxEntries) : [];
}

function snakeCase(name: string): string {
  return name.replace(/(?<=[a-z])[A-Z]/g, "_$&").toLowerCase();
}
