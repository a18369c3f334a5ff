import { type Reply, reply, type ScriptedToolCall } from "./model-server.ts";

/** Short forms of what scripted models say. */
export const terminal = (command: string, more: object = {}): ScriptedToolCall => ({
  name: "terminal",
  arguments: { command, security_risk: "LOW", ...more },
});

export const editor = (args: object): ScriptedToolCall => ({ name: "file_editor", arguments: args });

export const finish = (message: string): Reply => reply.toolCalls([{ name: "finish", arguments: { message } }]);
