import type { Event, Observation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";

let counter = 0;
const stamp = () => ({ id: `e${++counter}`, timestamp: "2026-01-01T00:00:00.000000" });

/** Events with the least that a reader needs, for tests of pure functions. */
export const userEvent = (text: string): Event => ({
  kind: "MessageEvent",
  ...stamp(),
  source: "user",
  llm_message: { role: "user", content: [textContent(text)] },
  activated_skills: [],
  extended_content: [],
});

export const agentEvent = (text: string): Event => ({
  kind: "MessageEvent",
  ...stamp(),
  source: "agent",
  llm_message: { role: "assistant", content: [textContent(text)], thinking_blocks: [] },
  activated_skills: [],
  extended_content: [],
});

export const actionEvent = (
  callId: string,
  command: string,
  options: { response?: string; thought?: string } = {},
): Event => ({
  kind: "ActionEvent",
  ...stamp(),
  source: "agent",
  thought: options.thought ? [textContent(options.thought)] : [],
  thinking_blocks: [],
  action: { kind: "TerminalAction", command, is_input: false, reset: false },
  tool_name: "terminal",
  tool_call_id: callId,
  tool_call: { id: callId, name: "terminal", arguments: JSON.stringify({ command }), origin: "completion" },
  llm_response_id: options.response ?? `r-${callId}`,
  security_risk: "UNKNOWN",
});

export const observationEvent = (callId: string, output: string): Event => ({
  kind: "ObservationEvent",
  ...stamp(),
  source: "environment",
  tool_name: "terminal",
  tool_call_id: callId,
  observation: {
    kind: "TerminalObservation",
    content: [textContent(output)],
    is_error: false,
    command: "",
    exit_code: 0,
    timeout: false,
    metadata: { exit_code: 0, pid: 1, prefix: "", suffix: "" },
  } as Observation,
  action_id: "a",
});

export const errorEvent = (callId: string, error: string): Event => ({
  kind: "AgentErrorEvent",
  ...stamp(),
  source: "agent",
  tool_name: "terminal",
  tool_call_id: callId,
  error,
});
