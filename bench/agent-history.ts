import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import { emptyConfig } from "@sandpiper/server/store/empty-config";
import { fillWithConversations, message, openStore } from "@sandpiper/server/test/support/store";
import { newId, textContent } from "@sandpiper/wire";

/**
 * Fills a data folder with idle conversations of this many events each, like terminal work. Returns
 * their ids.
 */
export async function fillWithHistories(
  dir: string,
  conversations: number,
  events: number,
): Promise<string[]> {
  const ids = await fillWithConversations(dir, conversations, { config: emptyConfig("/workspace") });
  const store = await openStore(dir);
  for (const id of ids) {
    const history = historyOf(events);
    for (let at = 0; at < history.length; at += 500)
      await store.events.append(id, history.slice(at, at + 500));
  }
  await store.close();
  return ids;
}

function historyOf(events: number): NewRecord[] {
  if (events === 0) return [];
  const prompt: NewRecord["event"] = {
    kind: "SystemPromptEvent",
    source: "agent",
    system_prompt: textContent("You are an agent."),
    tools: [],
  };
  const records: NewRecord[] = [
    { listed: true, event: prompt },
    message("Look into every file of the project."),
  ];
  for (let index = 0; records.length < events - 2; index++) records.push(...terminalCall(index));
  records.push({
    listed: true,
    event: {
      kind: "MessageEvent",
      source: "agent",
      llm_message: { role: "assistant", content: [textContent("That is all.")], thinking_blocks: [] },
      activated_skills: [],
      extended_content: [],
    },
  });
  return records;
}

function terminalCall(index: number): NewRecord[] {
  const id = newId();
  const command = `sed -n '${index},${index + 20}p' src/file-${index}.ts`;
  const tool_call_id = `call_${index}`;
  const base = { tool_name: "terminal", tool_call_id };
  const output = `line of file ${index} that says something about what is done here\n`.repeat(8);
  const action = { kind: "TerminalAction", command, is_input: false, reset: false } as const;
  const metadata = {
    exit_code: 0,
    pid: -1,
    username: "agent",
    hostname: "box",
    working_dir: "/workspace",
    prefix: "",
    suffix: "",
  };
  return [
    {
      listed: true,
      event: {
        ...{ kind: "ActionEvent", source: "agent", id, thought: [], thinking_blocks: [], ...base, action },
        tool_call: {
          id: tool_call_id,
          name: "terminal",
          arguments: JSON.stringify({ command }),
          origin: "completion",
        },
        ...{ llm_response_id: `response_${index}`, security_risk: "LOW" },
      } as NewRecord["event"],
    },
    {
      listed: true,
      event: {
        ...{ kind: "ObservationEvent", source: "environment", ...base, action_id: id },
        observation: {
          ...{ kind: "TerminalObservation", content: [textContent(output)], is_error: false, command },
          ...{ exit_code: 0, timeout: false, metadata },
        },
      } as NewRecord["event"],
    },
  ];
}
