import type { ActionEvent, MessageEvent, Observation } from "@sandpiper/wire";

/** What the hooks of an event decided together. */
export interface HookVerdict {
  /** Why it is blocked; undefined: it is not. */
  blocked?: string | undefined;
  /** What the model should read besides. */
  context?: string | undefined;
}

/**
 * The hooks of a conversation's project (agent-behaviour.md section 9). Each call runs those that match and appends a HookExecutionEvent for each;
 * a hook that fails blocks nothing. Throws the signal's reason when the run is aborted.
 */
export interface Hooks {
  /** When a run begins in a conversation for the first time since the server knows it. */
  sessionStart(): Promise<void>;
  /**
   * Before the model reads a message of the user for the first time. What was decided stands in the log: the view leaves out a blocked message, and
   * tells the model what it should read besides.
   */
  userPrompt(message: MessageEvent): Promise<HookVerdict>;
  beforeTool(event: ActionEvent): Promise<HookVerdict>;
  afterTool(event: ActionEvent, observation: Observation): Promise<HookVerdict>;
  /** Whether `beforeStop` has to be asked before a run ends as finished. */
  readonly holdsEnd: boolean;
  /** Before a run ends as finished; blocked: it goes on, and the model reads why. */
  beforeStop(): Promise<HookVerdict>;
}

/** What a hook adds, as the model reads it. */
export function hookContext(text: string): string {
  return `<HOOK_CONTEXT>\n${text}\n</HOOK_CONTEXT>`;
}

/** Whether a text that was added to a message or a result comes from hooks. */
export function isHookContext(text: string): boolean {
  return text.startsWith("<HOOK_CONTEXT>");
}

const stopFeedback = "[Stop hook feedback]";

/** Why hooks do not let a turn end, as the model reads it. */
export function stopHookText(reason: string): string {
  return `${stopFeedback} ${reason}`;
}

export function isStopFeedback(text: string): boolean {
  return text.startsWith(stopFeedback);
}

const nothing = async (): Promise<HookVerdict> => ({});

/** Those of a project that has none. */
export const noHooks: Hooks = {
  sessionStart: async () => {},
  userPrompt: nothing,
  beforeTool: nothing,
  afterTool: nothing,
  holdsEnd: false,
  beforeStop: nothing,
};
