import type { Model, ModelResponse } from "@sandpiper/models/model";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { ActionEvent, HookExecutionEvent, MessageEvent, Observation } from "@sandpiper/wire";
import type { NewRecord } from "../loop/log-record.ts";
import { listed } from "../loop/records.ts";
import { maskDeep, type OutputMask } from "../masking/output-mask.ts";
import { runAgentHook } from "./agent-hook.ts";
import { runCommandHook } from "./command-hook.ts";
import type { HookConfig, HookDefinition, HookEvent } from "./config.ts";
import { cut, type HookInput, limitInput, promptInput, toolInput, toolResponse } from "./hook-input.ts";
import type { Hooks, HookVerdict } from "./hooks.ts";
import { matchTool } from "./matcher.ts";
import { runPromptHook } from "./prompt-hook.ts";
import { decide, type HookOutcome } from "./verdict.ts";

/** What a run provides to its hooks. */
export interface RunHooksDeps {
  sandbox(): Promise<Sandbox>;
  /** The agent's model under a separate usage id. Throws ModelNotConfigured. */
  openModel(usageId: string): Promise<Model>;
  mask(): Promise<OutputMask>;
  append(records: NewRecord[]): Promise<unknown>;
  signal: AbortSignal;
}

export interface ProjectHooksDeps extends RunHooksDeps {
  conversationId: string;
  workingDir: string;
  addUsage(usageId: string, model: Model, response: ModelResponse): Promise<void>;
}

type EventType = HookExecutionEvent["hook_event_type"];
type Subject = Pick<HookExecutionEvent, "action_id" | "message_id">;

const eventTypes: Record<HookEvent, EventType> = {
  pre_tool_use: "PreToolUse",
  post_tool_use: "PostToolUse",
  user_prompt_submit: "UserPromptSubmit",
  session_start: "SessionStart",
  session_end: "SessionEnd",
  stop: "Stop",
};

/** Events that a hook allows or blocks before anything happens. */
const guarded: readonly HookEvent[] = ["pre_tool_use", "user_prompt_submit"];

/** Runs the hooks of an event one after the other, until one blocks. */
export class ProjectHooks implements Hooks {
  readonly #config: HookConfig;
  readonly #context: ProjectHooksDeps;
  /** Hooks by event and tool name. */
  readonly #matched = new Map<string, HookDefinition[]>();
  /** Numbers of model hooks, for their usage ids. */
  readonly #numbers = new Map<HookDefinition, number>();

  constructor(config: HookConfig, context: ProjectHooksDeps) {
    this.#config = config;
    this.#context = context;
    const all = Object.values(config).flatMap((matchers) => matchers.flatMap(({ hooks }) => hooks));
    for (const hook of all) if (hook.type !== "command") this.#numbers.set(hook, this.#numbers.size + 1);
  }

  get holdsEnd(): boolean {
    return this.#config.stop !== undefined;
  }

  async sessionStart(): Promise<void> {
    await this.#run("session_start", {});
  }

  /** Its decisions have no effect. */
  async sessionEnd(): Promise<void> {
    await this.#run("session_end", {});
  }

  userPrompt(message: MessageEvent): Promise<HookVerdict> {
    return this.#run("user_prompt_submit", promptInput(message), { message_id: message.id });
  }

  beforeTool(event: ActionEvent): Promise<HookVerdict> {
    return this.#run("pre_tool_use", toolInput(event), { action_id: event.id });
  }

  async afterTool(event: ActionEvent, observation: Observation): Promise<HookVerdict> {
    if (!this.#config.post_tool_use) return {};
    return this.#run("post_tool_use", toolResponse(event, observation), { action_id: event.id });
  }

  beforeStop(): Promise<HookVerdict> {
    return this.#run("stop", {});
  }

  async #run(event: HookEvent, input: HookInput, subject: Subject = {}): Promise<HookVerdict> {
    const hooks = this.#config[event] ? this.#matching(event, input.tool_name) : [];
    const contexts: string[] = [];
    for (const hook of hooks) {
      const outcome = await this.#outcome(event, hook, input);
      const mask = await this.#context.mask();
      const record = this.#record(event, hook, input, { subject, outcome, mask });
      await this.#context.append([listed(record)]);
      if (record.additional_context !== undefined) contexts.push(record.additional_context);
      if (record.blocked)
        return {
          blocked: record.reason ?? `A ${record.hook_event_type} hook of the project blocks it.`,
          ...joinContexts(contexts),
        };
    }
    return joinContexts(contexts);
  }

  #matching(event: HookEvent, toolName: string | undefined): HookDefinition[] {
    const key = `${event} ${toolName ?? ""}`;
    let hooks = this.#matched.get(key);
    if (!hooks) {
      const matchers = this.#config[event] ?? [];
      const names = matchers.map(({ matcher }) => matcher);
      const matches = toolName === undefined ? undefined : matchTool(names, toolName);
      hooks = matchers.filter((_matcher, index) => matches?.[index] ?? true).flatMap((one) => one.hooks);
      this.#matched.set(key, hooks);
    }
    return hooks;
  }

  async #outcome(event: HookEvent, hook: HookDefinition, input: HookInput): Promise<HookOutcome> {
    const { conversationId, workingDir, sandbox, signal, openModel, addUsage } = this.#context;
    const event_type = eventTypes[event];
    const payload = JSON.stringify({
      event_type,
      ...input,
      session_id: conversationId,
      working_dir: workingDir,
      metadata: {},
    });
    if (hook.type !== "command") {
      const usageId = `${hook.type}-hook:${this.#numbers.get(hook)}`;
      const onUsage = (model: Model, response: ModelResponse) => addUsage(usageId, model, response);
      const asks = { openModel: () => openModel(usageId), input: payload, onUsage, signal };
      if (hook.type === "prompt") return runPromptHook(hook, asks);
      return runAgentHook(hook, { ...asks, conversationId, workingDir, sandbox, mask: this.#context.mask });
    }
    const env = {
      OPENHANDS_PROJECT_DIR: workingDir,
      OPENHANDS_SESSION_ID: conversationId,
      OPENHANDS_EVENT_TYPE: event_type,
      ...(input.tool_name && { OPENHANDS_TOOL_NAME: input.tool_name }),
      ...(hook.plugin && { CLAUDE_PLUGIN_ROOT: hook.plugin, OPENHANDS_PLUGIN_ROOT: hook.plugin }),
    };
    const work = runCommandHook(hook, { sandbox, workingDir, env, input: payload, signal });
    if (!hook.async) return work;
    work.catch(() => {});
    return { exitCode: 0, stdout: "", stderr: "" };
  }

  /** The event of one execution, cut and masked. */
  #record(
    event: HookEvent,
    hook: HookDefinition,
    input: HookInput,
    { subject, outcome, mask }: { subject: Subject; outcome: HookOutcome; mask: OutputMask },
  ) {
    const { success, blocked, reason, additionalContext } = decide(outcome, {
      guards: guarded.includes(event),
    });
    const said = maskDeep(
      {
        hook_command: hook.command,
        stdout: outcome.stdout,
        stderr: outcome.stderr,
        ...(reason !== undefined && { reason }),
        ...(additionalContext !== undefined && { additional_context: additionalContext }),
        ...(outcome.error !== undefined && { error: outcome.error }),
      },
      mask,
    );
    const shown = maskDeep(limitInput(input), mask);
    return {
      kind: "HookExecutionEvent" as const,
      source: "hook" as const,
      hook_event_type: eventTypes[event],
      success,
      blocked,
      exit_code: outcome.exitCode,
      ...(input.tool_name && { tool_name: input.tool_name }),
      ...(Object.fromEntries(
        Object.entries(said).map(([key, text]) => [key, cut(text.toWellFormed())]),
      ) as typeof said),
      ...subject,
      ...(Object.keys(shown).length > 0 && { hook_input: shown }),
    };
  }
}

function joinContexts(contexts: readonly string[]): HookVerdict {
  return contexts.length > 0 ? { context: contexts.join("\n\n") } : {};
}
