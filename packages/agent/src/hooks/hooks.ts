import type { ActionEvent, MessageEvent, Observation } from "@sandpiper/wire";

/** The combined decision of an event's hooks. */
export interface HookVerdict {
  /** Reason; undefined when not blocked. */
  blocked?: string | undefined;
  /** Additional text for the model. */
  context?: string | undefined;
}

/**
 * The hooks of a conversation (agent-behaviour.md section 9). Each call runs the matching hooks and
 * appends a HookExecutionEvent for each. A hook that fails blocks nothing, but a command that dies
 * before a tool or a message blocks it. Throws the signal's reason.
 */
export interface Hooks {
  /** On the first run since the server loaded the conversation. */
  sessionStart(): Promise<void>;
  /** Before the model reads a user message. The view applies the logged decision. */
  userPrompt(message: MessageEvent): Promise<HookVerdict>;
  beforeTool(event: ActionEvent): Promise<HookVerdict>;
  afterTool(event: ActionEvent, observation: Observation): Promise<HookVerdict>;
  /** Whether `beforeStop` must run before a run finishes. */
  readonly holdsEnd: boolean;
  /** Before a run finishes; if blocked, it continues and the model reads why. */
  beforeStop(): Promise<HookVerdict>;
}

/** Wraps a hook's text for the model. */
export function hookContext(text: string): string {
  return `<HOOK_CONTEXT>\n${text}\n</HOOK_CONTEXT>`;
}

/** Whether a text was added by hooks. */
export function isHookContext(text: string): boolean {
  return text.startsWith("<HOOK_CONTEXT>");
}

const stopFeedback = "[Stop hook feedback]";

/** Why a stop hook keeps the turn open, for the model. */
export function stopHookText(reason: string): string {
  return `${stopFeedback} ${reason}`;
}

export function isStopFeedback(text: string): boolean {
  return text.startsWith(stopFeedback);
}

const nothing = async (): Promise<HookVerdict> => ({});

export const noHooks: Hooks = {
  sessionStart: async () => {},
  userPrompt: nothing,
  beforeTool: nothing,
  afterTool: nothing,
  holdsEnd: false,
  beforeStop: nothing,
};
