import { type ModelRequestSeen, type Reply, reply } from "@sandpiper/models/test/support/model-server";

/**
 * The model of the clients' scripts: it does what the last message says. `run: COMMAND` is a call
 * of the terminal and `call: TOOL JSON` one of another tool, one after the other; `error: TEXT` is
 * a refused request; the text after `say:` is the agent's last word. Any other message (a question,
 * the request for a title) gets a text.
 */
export function answer({ messages, tools, body }: ModelRequestSeen): Reply {
  if (!body.stream) return whole("It says so.");
  const at = messages.findLastIndex(({ role }) => role === "user");
  const text = messages[at]?.text ?? "";
  const done = messages.slice(at + 1).filter(({ role }) => role === "tool").length;
  const calls = [...text.matchAll(/^(?:run|call): (.*)$/gm)].map(([line, rest]) => toCall(line, rest!));
  const refused = /^error: (.*)$/m.exec(text)?.[1];
  if (refused !== undefined) return reply.error(400, { error: { message: refused } });
  if (done < calls.length) return reply.toolCalls([calls[done]!]);
  const message = /^say: (.*)$/m.exec(text)?.[1] ?? (calls.length > 0 ? "Done." : undefined);
  if (message === undefined || tools.length === 0) return reply.text("It says so.");
  return reply.toolCalls([{ name: "finish", arguments: { message } }]);
}

function toCall(line: string, rest: string): { name: string; arguments: Record<string, unknown> } {
  if (line.startsWith("run:"))
    return { name: "terminal", arguments: { command: rest, security_risk: riskOf(rest) } };
  const [name = ""] = rest.split(" ", 1);
  return { name, arguments: JSON.parse(rest.slice(name.length)) };
}

function riskOf(command: string): string {
  return command.startsWith("rm ") ? "HIGH" : "LOW";
}

/** A chat completion in one piece: a client's own model asks for a title without a stream. */
function whole(content: string): Reply {
  const completion = {
    id: "chatcmpl-whole",
    object: "chat.completion",
    created: 1_700_000_000,
    model: "scripted",
    choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
    usage: { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 },
  };
  return reply.bytes([JSON.stringify(completion)], { "content-type": "application/json" });
}
