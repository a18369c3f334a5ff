import { toTaskUsageId } from "@sandpiper/agent/loop/records";
import type { AgentDefinition } from "@sandpiper/agent/skills/agent-definitions";
import { taskTool } from "@sandpiper/agent/tools/task";
import type { Tool } from "@sandpiper/agent/tools/tool";
import { abortable } from "@sandpiper/core/abortable";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { ConfirmationPolicy, TaskAction, TaskObservation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import type { AgentDocument } from "../../store/conversation-parts.ts";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import type { ToolSource } from "../agent/toolset.ts";
import type { ConversationCommands } from "../api.ts";
import { isMoved } from "../custody.ts";
import { toForkContext } from "../project/project-context.ts";
import type { ConversationUsage } from "./conversation-usage.ts";
import type { Runner } from "./runner.ts";
import type { SubAgentDefinitions } from "./sub-agent-definitions.ts";
import { deriveId, findQuestion, SubAgentTurn } from "./sub-agent-turn.ts";

/** Maximum sub-agents of one conversation, concurrently and in total. */
const maxConcurrent = 20;
const maxTotal = 500;

export interface SubAgentRunnerDeps {
  store: Pick<Store, "conversations" | "events" | "contexts">;
  agents: Pick<AgentConfigResolver, "clientAgent" | "policy" | "hasTaskTool">;
  definitions: SubAgentDefinitions;
  runner: Pick<Runner, "abort">;
  usage: Pick<ConversationUsage, "setTaskMetrics">;
  commands: Pick<ConversationCommands, "send" | "run" | "pause" | "reject">;
}

/**
 * Sub-agents are conversations in the sandbox and folder of their parent (agent-behaviour.md
 * section 12). Their ids are derived from the id of the call, so a call that is repeated after a
 * crash finds its sub-agent.
 */
export class SubAgentRunner implements ToolSource {
  readonly #deps: SubAgentRunnerDeps;
  readonly #creations = new KeyedMutex();
  /** Active turns, by the parent's id. */
  readonly #turns = new Map<string, Set<SubAgentTurn>>();

  constructor(deps: SubAgentRunnerDeps) {
    this.#deps = deps;
  }

  async tools(row: Pick<ConversationRow, "id" | "userId" | "config">): Promise<readonly Tool[]> {
    const { agents, definitions } = this.#deps;
    if (row.config.task || row.config.agentType === "plan" || !(await agents.hasTaskTool(row))) return [];
    return [taskTool(await definitions.list(row), (...call) => this.#run(row.id, ...call))];
  }

  /** Adds what sub-agents have used to the parent's metrics. */
  async prepare({ id }: Pick<ConversationRow, "id">): Promise<readonly string[]> {
    const children = await this.#listChildren(id);
    await Promise.all(children.map((child) => this.#reportMetrics(id, child)));
    return [];
  }

  /** Whether a sub-agent waits for the user. */
  async isWaiting(parentId: string): Promise<boolean> {
    return (await this.#listWaiting(parentId)).length > 0;
  }

  /** Approves the waiting actions of the sub-agents whose questions are in the parent's log. */
  async approve(parentId: string): Promise<void> {
    const { events } = this.#deps.store;
    const waiting = await this.#listWaiting(parentId);
    await Promise.all(
      waiting.map(async ({ id }) => {
        const { questionId } = await findQuestion(events, id);
        if (questionId === undefined) return;
        const [question] = await events.batch(parentId, [questionId]);
        if (question !== null) await this.#deps.commands.run(id);
      }),
    );
  }

  async reject(parentId: string, reason: string): Promise<void> {
    const waiting = await this.#listWaiting(parentId);
    await Promise.all(waiting.map(({ id }) => this.#deps.commands.reject(id, reason)));
  }

  /** Ends the turns of a removed conversation. */
  notifyRemoved(id: string): void {
    for (const turns of this.#turns.values())
      for (const turn of turns) if (turn.childId === id) turn.checkStatus();
  }

  async #run(
    parentId: string,
    action: TaskAction,
    actionId: string,
    signal: AbortSignal,
  ): Promise<TaskObservation> {
    const parent = await this.#deps.store.conversations.get(parentId);
    if (!parent) return toFailure("", action.subagent_type, "The conversation is gone.");
    // A call of a run that has moved may hang, and its repetition must not wait for it.
    const find = () => abortable(this.#findOrCreate(parent, action, actionId), signal);
    const begun = await abortable(this.#creations.run(parentId, find), signal);
    if ("kind" in begun) return begun;
    const turns = this.#turns.get(parentId) ?? new Set();
    this.#turns.set(parentId, turns);
    const turn = new SubAgentTurn(this.#deps, parent, begun.id, actionId, signal);
    turns.add(turn);
    try {
      return await turn.waitForResult(() => this.#sendTask(begun, action, actionId));
    } catch (error) {
      // The run is about to be aborted, and the next owner repeats the call.
      if (isMoved(error)) await abortable(new Promise<never>(() => {}), signal);
      throw error;
    } finally {
      turns.delete(turn);
      if (turns.size === 0) this.#turns.delete(parentId);
      // The next run reports what this one cannot report.
      const reported = this.#reportMetricsOf(parentId, begun.id).catch(() => {});
      await (signal.reason === "interrupt" ? reported : abortable(reported, signal)).catch(() => {});
    }
  }

  /**
   * The conversation of a repeated call, of the task to resume, or a new one. An observation says
   * why there is none.
   */
  async #findOrCreate(
    parent: ConversationRow,
    action: TaskAction,
    actionId: string,
  ): Promise<ConversationRow | TaskObservation> {
    const { conversations } = this.#deps.store;
    const children = await this.#listChildren(parent.id);
    const { resume, subagent_type: kind } = action;
    if (resume) {
      const found = children.find(({ config }) => config.task?.id === resume);
      if (!found)
        return toFailure(
          "",
          kind,
          `There is no task ${resume}: the tasks are ${children.map(getTaskId).join(", ") || "none yet"}.`,
        );
      if (found.summary.executionStatus === "running" && !(await this.#hasMessage(found.id, actionId)))
        return toFailure(resume, kind, `The task ${resume} is still at work.`);
      return found;
    }
    const id = deriveId("task", actionId);
    const known = await conversations.get(id);
    if (known) return known;
    if (children.length >= maxTotal)
      return toFailure(
        "",
        kind,
        `This conversation has had its ${maxTotal} sub-agents: do the rest yourself.`,
      );
    if ((this.#turns.get(parent.id)?.size ?? 0) >= maxConcurrent)
      return toFailure(
        "",
        kind,
        `${maxConcurrent} sub-agents are at work: call this one again when they are done.`,
      );
    const definition = await this.#deps.definitions.find(parent, kind);
    if (typeof definition === "string") return toFailure("", kind, definition);
    const number =
      Math.max(
        0,
        ...children.map((child) => Number.parseInt(getTaskId(child).slice("task_".length), 16) || 0),
      ) + 1;
    await this.#create(parent, id, definition, {
      id: `task_${number.toString(16).padStart(8, "0")}`,
      title: action.description?.trim() || action.prompt.trim(),
    });
    return (await conversations.get(id))!;
  }

  async #create(
    parent: ConversationRow,
    id: string,
    definition: AgentDefinition,
    task: { id: string; title: string },
  ): Promise<void> {
    const { store, agents } = this.#deps;
    const [own, context, parentPolicy] = await Promise.all([
      agents.clientAgent(parent),
      store.contexts.get(parent.id),
      agents.policy(parent),
    ]);
    const { goal: _goal, forkedFrom: _forkedFrom, worktree: _worktree, ...inherited } = parent.config;
    const names =
      definition.tools ?? own?.agent?.tools?.map(({ name }) => name).filter((name) => !/^task/i.test(name));
    const suffix = [
      parent.config.systemMessageSuffix,
      `<SUB_AGENT>\n${definition.systemPrompt}\n</SUB_AGENT>`,
    ];
    await store.conversations.create(
      {
        id,
        userId: parent.userId,
        sandboxId: parent.sandboxId,
        title: task.title.replaceAll(/\s+/g, " ").slice(0, 100),
        parentId: parent.id,
        createdAt: Date.now(),
        config: {
          ...inherited,
          tags: {},
          trigger: null,
          autotitle: false,
          ownAgent: own !== undefined || names !== undefined,
          systemMessageSuffix: suffix.filter(Boolean).join("\n\n"),
          // What a repository says may lower the user's limit only.
          maxIterations: Math.min(definition.maxIterations ?? Infinity, parent.config.maxIterations),
          ...(definition.maxBudget && {
            maxBudget: Math.min(definition.maxBudget, parent.config.maxBudget ?? Infinity),
          }),
          ...(definition.skills && { onlySkills: definition.skills }),
          confirmationPolicy: toPolicy(definition) ?? parentPolicy,
          ...(definition.model && { llmProfile: definition.model }),
          task: { id: task.id, subagent: definition.name },
        },
        ...(context && { context: { document: toForkContext(context.document), activated: [] } }),
      },
      own || names ? { ...toChild(own, definition), ...(names && { tools: names }) } : undefined,
    );
  }

  /** Sends the task, once per call. */
  async #sendTask(child: ConversationRow, action: TaskAction, actionId: string): Promise<void> {
    if (await this.#hasMessage(child.id, actionId)) return;
    await this.#deps.commands.send(child.id, [textContent(action.prompt)], {
      run: true,
      eventId: deriveId("message", actionId),
    });
  }

  async #hasMessage(childId: string, actionId: string): Promise<boolean> {
    const [message] = await this.#deps.store.events.batch(childId, [deriveId("message", actionId)]);
    return message !== null;
  }

  async #listChildren(parentId: string): Promise<ConversationRow[]> {
    const { conversations } = this.#deps.store;
    const ids = (await conversations.listChildren([parentId])).get(parentId) ?? [];
    const rows = await Promise.all(ids.map((id) => conversations.get(id)));
    return rows.filter((row) => row !== undefined).filter(({ config }) => config.task);
  }

  async #listWaiting(parentId: string): Promise<ConversationRow[]> {
    const children = await this.#listChildren(parentId);
    return children.filter(({ summary }) => summary.executionStatus === "waiting_for_confirmation");
  }

  async #reportMetricsOf(parentId: string, childId: string): Promise<void> {
    const child = await this.#deps.store.conversations.get(childId);
    if (child) await this.#reportMetrics(parentId, child);
  }

  async #reportMetrics(parentId: string, { config, summary }: ConversationRow): Promise<void> {
    if (config.task && summary.metrics)
      await this.#deps.usage.setTaskMetrics(parentId, toTaskUsageId(config.task.id), summary.metrics);
  }
}

/** The client's document for a sub-agent, with the parts that its definition replaces. */
function toChild(own: AgentDocument | undefined, definition: AgentDefinition): AgentDocument {
  const { definitions: _, agent, ...inherited } = own ?? {};
  const { mcpServers, condenser, hooks } = definition;
  const rest = { ...inherited, ...(hooks && { ownHooks: hooks }) };
  if (!agent) return rest;
  const changed = { ...(mcpServers && { mcp_config: mcpServers }), ...(condenser && { condenser }) };
  return { ...rest, agent: { ...agent, ...changed } };
}

function getTaskId({ config }: ConversationRow): string {
  return config.task?.id ?? "";
}

function toPolicy({ permissionMode }: AgentDefinition): ConfirmationPolicy | undefined {
  if (permissionMode === "always_confirm") return { kind: "AlwaysConfirm" };
  if (permissionMode === "never_confirm") return { kind: "NeverConfirm" };
  return permissionMode && { kind: "ConfirmRisky", threshold: "HIGH", confirm_unknown: true };
}

/** The result of a task that could not start. */
function toFailure(task: string, subagent: string, text: string): TaskObservation {
  return {
    kind: "TaskObservation",
    content: [textContent(text)],
    is_error: true,
    task_id: task,
    subagent: subagent.slice(0, 60),
    status: "error",
  };
}
