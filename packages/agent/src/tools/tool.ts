import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { Terminal } from "@sandpiper/sandbox/shell/terminal";
import type { Action, Content, Observation, TaskItem, ToolDefinition } from "@sandpiper/wire";
import type { TSchema } from "typebox";
import type { Browser } from "../browser/browser.ts";
import type { RuleRisk } from "../risk/findings.ts";

/** `finish` ends the turn, `thought` has no effect; neither is confirmed, arguments are masked. */
export type ToolRole = "finish" | "thought";

/** The part of a tool that all conversations share; the registry derives its lists from it. */
export interface ToolTraits<A extends Action = Action, O extends Observation = Observation> {
  /** Wire name, for example `terminal`. */
  readonly name: string;
  readonly actionKind: A["kind"];
  readonly role?: ToolRole;
  /** Other names by which models call the tool. */
  readonly aliases?: readonly string[];
  /** Reaches beyond the sandbox or the conversation: a replay uses recorded results. */
  readonly outside?: boolean;
  /** What the model reads of an observation of this kind. Default: the observation's content. */
  readonly render?: { readonly kind: O["kind"]; content(observation: O): Content[] };
  /** Findings of the risk rules. Default: none; LOW for read-only tools, else MEDIUM. */
  risk?(action: A): RuleRisk;
  /** Puts the state of the log into `memory` when a run begins. */
  restore?(memory: Map<string, unknown>, state: { readonly taskList: readonly TaskItem[] }): void;
}

/** A tool of the agent (events.md section 3). One file a tool; tools/registry.ts lists them. */
export interface Tool<A extends Action = Action, O extends Observation = Observation>
  extends ToolTraits<A, O> {
  /** As SystemPromptEvent.tools lists it. */
  readonly definition: ToolDefinition;
  /** What the model reads. */
  readonly description: string;
  /** Without `security_risk` and `summary`; the action is `{ kind: actionKind, ...arguments }`. */
  readonly parameters: TSchema;
  /** Run again after a crash instead of answering "interrupted, outcome unknown". */
  readonly idempotent: boolean;
  /**
   * Whether the action goes on in the sandbox when the server ends. After a crash `run` is then
   * called again, with `isRepeated`, and continues the action. `run` throws CommandInterrupted when
   * it cannot continue the action.
   */
  continues?(action: A): boolean;
  /** True for tools that cannot change anything; they get no `security_risk` parameter. */
  readonly readOnly: boolean;
  /** Adds the arguments that a call by an alias, or without its command, leaves out. */
  completeArguments?(received: Record<string, unknown>, alias: string): Record<string, unknown>;
  /** Returns the action's fields, or problems without values. Default: fits to `parameters`. */
  readArguments?(
    received: Record<string, unknown>,
  ): { fitted: Record<string, unknown> } | { problems: string[] };
  /**
   * Describes what a call does beyond its arguments, for the person who approves it. The event
   * shows the description instead of the model's summary.
   */
  describe?(action: A): string | undefined;
  /** Errors of use resolve with `is_error`; a throw becomes an AgentErrorEvent. */
  run(action: A, context: ToolContext): Promise<O>;
  /** Keys such as `file:/a`: calls that share one run in sequence. Default: the tool's name. */
  resources?(action: A, workingDir: string): readonly string[];
}

/** How far a call is: `progress` of `total`, in the tool's own units. */
export interface ToolProgress {
  progress: number;
  total?: number | undefined;
  message?: string | undefined;
  /** What a command printed since the last report. */
  output?: string | undefined;
}

export interface ToolContext {
  conversationId: string;
  /** Id of the ActionEvent; the same when an idempotent tool runs again after a crash. */
  actionId: string;
  /** An earlier server may have begun the call. */
  isRepeated?: boolean;
  /** What the event says of the call (`describe`), as it was shown for approval. */
  described?: string | undefined;
  /** Waits until the sandbox runs; it starts during the model call. Throws SandboxFailed. */
  sandbox(): Promise<Sandbox>;
  /** The conversation's persistent shell, until it is reset or the sandbox is replaced. */
  terminal(): Promise<Terminal>;
  /** The conversation's browser, which starts with its first use in a sandbox. */
  browser(): Promise<Browser>;
  workingDir: string;
  /** The one file that a planning agent may write. */
  planPath: string;
  /** Aborted on interrupt: stop quickly (the terminal sends C-c). */
  signal: AbortSignal;
  /** Reports the progress of the call to clients, at a limited rate. */
  onProgress?(progress: ToolProgress): void;
  /** Earlier results, last first; undefined when unknown. */
  earlier?(): AsyncIterable<Observation>;
  /** State of tools while the conversation is awake (editor history, task list), by tool name. */
  memory: Map<string, unknown>;
}
