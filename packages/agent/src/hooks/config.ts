import { hookEvents } from "@sandpiper/wire";
import { isMatcher } from "./matcher.ts";

/** An event that hooks follow, as files and clients name it in snake_case. */
export type HookEvent = (typeof hookEvents)[number];

/** One hook (agent-behaviour.md section 9). */
export interface HookDefinition {
  type: "command" | "prompt" | "agent";
  /** Shell command; for the other types the text that the model is asked. */
  command: string;
  /** In the place of our instructions to the model that a prompt hook asks. */
  systemPrompt?: string;
  /** Seconds. */
  timeout: number;
  /** Nobody waits for its end, and it decides nothing. Commands only. */
  async: boolean;
  /** Folder of the plugin that it comes from. */
  plugin?: string;
}

type Tell = (sentence: string) => void;

/** Hooks, each with the matcher of tool names under which it stands, in the order in which they run. */
export type HookConfig = { [event in HookEvent]?: HookMatcher[] };

export interface HookMatcher {
  matcher: string;
  hooks: HookDefinition[];
}

/** Most matchers of an event, hooks of a matcher, characters of a command, and seconds of a hook. */
const maxEntries = 100;
const maxCommand = 30_000;
const maxTimeout = 600;

/**
 * Reads a configuration: events in PascalCase or snake_case, bare or inside of `{"hooks": …}`. What is no hook is left out, and `tell` gets a sentence about it:
 * somebody relies on it. Undefined for what is no object at all.
 */
export function readHookConfig(
  value: unknown,
  plugin?: string,
  tell: Tell = () => {},
): HookConfig | undefined {
  if (!isObject(value)) return undefined;
  const events = isObject(value.hooks) ? value.hooks : value;
  const config: HookConfig = {};
  for (const [name, given] of Object.entries(events)) {
    const event = hookEvents.find((known) => known === snakeCase(name));
    const matchers = listOf(given).flatMap((one) => readMatcher(one, plugin));
    // Other keys are no lists: a version, a description.
    if (!event && Array.isArray(given))
      tell(`There is no event ${name.slice(0, 100)} for hooks: ${hookEvents.join(", ")}.`);
    if (event && isLessThan(given, matchers))
      tell(`Not all hooks of ${name} can be read, and those that cannot are not run.`);
    for (const { matcher } of matchers)
      if (event?.endsWith("_tool_use") && !isMatcher(matcher))
        tell(
          `A matcher of ${name} is no expression, so its hooks are run for no tool: ${matcher.slice(0, 100)}`,
        );
    if (event && matchers.length > 0) config[event] = [...(config[event] ?? []), ...matchers];
  }
  return config;
}

/** As `readHookConfig`, of the text of a `.openhands/hooks.json`. Undefined for what is no JSON object. */
export function parseHookConfig(text: string, plugin?: string, tell?: Tell): HookConfig | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  return readHookConfig(value, plugin, tell);
}

/** All hooks, those of the earlier configurations first. */
export function mergeHookConfigs(configs: readonly HookConfig[]): HookConfig {
  const merged: HookConfig = {};
  for (const config of configs)
    for (const event of hookEvents)
      if (config[event]) merged[event] = [...(merged[event] ?? []), ...config[event]];
  return merged;
}

/** Whether something of a list of matchers was left out. */
function isLessThan(given: unknown, read: readonly HookMatcher[]): boolean {
  if (given === null) return false;
  if (!Array.isArray(given) || given.length !== read.length) return true;
  return read.some(
    ({ hooks }, index) => (given[index] as { hooks: unknown[] }).hooks.length !== hooks.length,
  );
}

function readMatcher(value: unknown, plugin: string | undefined): HookMatcher[] {
  if (!isObject(value)) return [];
  const hooks = listOf(value.hooks).flatMap((one) => readHook(one, plugin));
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
  // A part of a command would be another command.
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
