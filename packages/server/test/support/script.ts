import type { ScriptedToolCall } from "@sandpiper/models/test/support/model-answer";
import { type ModelRequestSeen, type Reply, reply } from "@sandpiper/models/test/support/model-server";

/** Short forms of what scripted models say. */
export const terminal = (command: string, more: object = {}): ScriptedToolCall => ({
  name: "terminal",
  arguments: { command, security_risk: "LOW", ...more },
});

export const editor = (args: object): ScriptedToolCall => ({ name: "file_editor", arguments: args });

export const finish = (message: string): Reply =>
  reply.toolCalls([{ name: "finish", arguments: { message } }]);

/** A model that runs the command of a message `run: COMMAND`, and finishes at any other message. */
export function obey({ messages }: Pick<ModelRequestSeen, "messages">): Reply {
  const last = messages.at(-1)!;
  const command = last.role === "user" ? /^run: (.*)/m.exec(last.text)?.[1] : undefined;
  return command === undefined ? finish("Done.") : reply.toolCalls([terminal(command)]);
}
