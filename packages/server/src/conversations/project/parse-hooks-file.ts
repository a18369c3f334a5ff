import { describeHooksFault, parseHookConfig } from "@sandpiper/agent/hooks/config";
import { PlatformError } from "@sandpiper/core/errors";
import { type ConversationHooks, hookEvents } from "@sandpiper/wire";

/**
 * The hooks of a `.openhands/hooks.json` as clients read them, without invalid entries
 * (app-server.md section 2.9). Throws HooksUnreadable when the text is not a JSON object.
 */
export function parseHooksFile(text: string): ConversationHooks["hooks"] {
  const config = parseHookConfig(text);
  if (!config) throw new PlatformError("HooksFileInvalid", { reason: describeHooksFault(text) });
  return hookEvents.flatMap((event_type) => {
    const matchers = config[event_type]?.map(({ matcher, hooks }) => ({
      matcher,
      hooks: hooks.map(({ type, command, timeout, async }) => ({ type, command, timeout, async })),
    }));
    return matchers ? [{ event_type, matchers }] : [];
  });
}
