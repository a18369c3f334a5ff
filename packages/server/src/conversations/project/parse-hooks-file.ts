import { parseHookConfig } from "@sandpiper/agent/hooks/config";
import { PlatformError } from "@sandpiper/core/errors";
import { type ConversationHooks, hookEvents } from "@sandpiper/wire";

/**
 * The hooks that a `.openhands/hooks.json` holds, as clients read them (app-server.md section 2.9). What is no hook is left out. Throws HooksUnreadable for what
 * is no JSON object.
 */
export function parseHooksFile(text: string): ConversationHooks["hooks"] {
  const config = parseHookConfig(text);
  if (!config)
    throw new PlatformError(
      "HooksUnreadable",
      "The file .openhands/hooks.json of the project is no JSON object: correct it.",
    );
  return hookEvents.flatMap((event_type) => {
    const matchers = config[event_type]?.map(({ matcher, hooks }) => ({
      matcher,
      hooks: hooks.map(({ type, command, timeout, async }) => ({ type, command, timeout, async })),
    }));
    return matchers ? [{ event_type, matchers }] : [];
  });
}
