import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { Terminal } from "@sandpiper/sandbox/shell/terminal";
import type { Action, Observation, ToolDefinition } from "@sandpiper/wire";
import type { TSchema } from "typebox";
import type { Browser } from "../browser/browser.ts";

/** A tool of the agent (events.md section 3). One file a tool. */
export interface Tool<A extends Action = Action, O extends Observation = Observation> {
  /** Wire name, for example `terminal`. */
  readonly name: string;
  /** As SystemPromptEvent.tools lists it. */
  readonly definition: ToolDefinition;
  /** What the model reads. */
  readonly description: string;
  /** The model's arguments, without `security_risk` and `summary`; the action is `{ kind: actionKind, ...arguments }` with defaults filled in. */
  readonly parameters: TSchema;
  readonly actionKind: A["kind"];
  /** Run again after a crash instead of answering "interrupted, outcome unknown". */
  readonly idempotent: boolean;
  /** True for tools that cannot change anything; they get no `security_risk` parameter. */
  readonly readOnly: boolean;
  /** Its server says that it destroys something, of which others only say nothing. */
  readonly destructive?: boolean;
  /**
   * Takes the arguments in a way of its own, and gives the rest of the action or what is wrong with them, without values. Default: they are fitted to `parameters`.
   */
  readArguments?(
    received: Record<string, unknown>,
  ): { fitted: Record<string, unknown> } | { problems: string[] };
  /** Resolves with the result, errors of use included (`is_error`). A throw becomes an AgentErrorEvent. */
  run(action: A, context: ToolContext): Promise<O>;
  /**
   * What a call holds while it runs, such as `file:/a` or `terminal`: calls that share a key run one after the other, others may run side by side. Default: the
   * tool's own name, so that it runs once at a time.
   */
  resources?(action: A, workingDir: string): readonly string[];
}

/** How far a call is: `progress` of `total`, in the tool's own units. */
export interface ToolProgress {
  progress: number;
  total?: number | undefined;
  message?: string | undefined;
}

export interface ToolContext {
  conversationId: string;
  /** Id of the ActionEvent that is run: the same when an idempotent tool is run again after a crash. */
  actionId: string;
  /** Waits for the sandbox to run (it starts while the model is called). Throws SandboxFailed when it cannot. */
  sandbox(): Promise<Sandbox>;
  /** The conversation's persistent shell; the same one until it is reset or the sandbox is replaced. */
  terminal(): Promise<Terminal>;
  /** The conversation's browser, which starts with its first use; a new one where the sandbox is a new one. */
  browser(): Promise<Browser>;
  workingDir: string;
  /** The one file that a planning agent may write. */
  planPath: string;
  /** Aborted on interrupt: stop quickly (the terminal sends C-c). */
  signal: AbortSignal;
  /** Shows those who follow how far the call is, some of the times that it is called. */
  onProgress?(progress: ToolProgress): void;
  /** Results of the conversation's calls before this one, the last first; absent where nobody knows them. */
  earlier?(): AsyncIterable<Observation>;
  /** State of tools that lives as long as the conversation is awake (editor history, task list), by tool name. */
  memory: Map<string, unknown>;
}
