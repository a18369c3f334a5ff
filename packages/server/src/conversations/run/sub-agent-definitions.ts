import { asksForMore } from "@sandpiper/agent/behaviour/behaviour";
import { type AgentDefinition, loadAgentDefinitions } from "@sandpiper/agent/skills/agent-definitions";
import { builtInSubAgents } from "@sandpiper/agent/sub-agents/built-in";
import type { ListedAgent } from "@sandpiper/agent/tools/task";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Acceptances, Settings } from "../../users/api.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import { type ProjectBehaviours, toPlace } from "../project/behaviours.ts";
import type { ProjectContexts } from "../project/project-context.ts";
import type { Workspaces } from "./workspaces.ts";

export interface SubAgentDefinitionsDeps {
  agents: Pick<AgentConfigResolver, "clientAgent">;
  settings: Pick<Settings, "profileModel">;
  contexts: Pick<ProjectContexts, "get">;
  workspaces: Pick<Workspaces, "getOrCreate">;
  behaviours: Pick<ProjectBehaviours, "find">;
  acceptances: Pick<Acceptances, "withheld">;
}

/** The sub-agents that an agent may call: of its client, of its project, and the built-in ones. */
export class SubAgentDefinitions {
  readonly #deps: SubAgentDefinitionsDeps;

  constructor(deps: SubAgentDefinitionsDeps) {
    this.#deps = deps;
  }

  /** The sub-agents when the conversation began, for the description of the tool. */
  async list(row: Pick<ConversationRow, "id" | "config">): Promise<readonly ListedAgent[]> {
    const [{ agents = [] }, given] = await Promise.all([this.#deps.contexts.get(row.id), this.#given(row)]);
    const found = agents.filter(
      ({ name }) => name !== "general-purpose" && given.every((one) => one.name !== name),
    );
    const known = [...given, ...found];
    return [...known, ...builtInSubAgents.filter(({ name }) => known.every((one) => one.name !== name))];
  }

  /** A string says why the sub-agent cannot be used. Throws what `exec` throws. */
  async find(parent: ConversationRow, kind: string): Promise<AgentDefinition | string> {
    // Definitions in the sandbox are read only when one is needed.
    const given = await this.#given(parent);
    const ofClient = given.find(({ name }) => name === kind);
    if (ofClient) return (await this.#checkModel(parent, ofClient)) ?? ofClient;
    const builtIn = builtInSubAgents.find(({ name }) => name === kind);
    const own = builtIn && kind === "general-purpose" ? [] : await this.#load(parent);
    const all = [...given, ...own, ...builtInSubAgents];
    const found = all.find(({ name }) => name === kind);
    if (!found)
      return `There is no sub-agent ${kind.slice(0, 60)}: they are ${[...new Set(all.map(({ name }) => name))].join(", ")}.`;
    return (await this.#checkModel(parent, found)) ?? found;
  }

  /** The sub-agents that the client defined; they come before all others. */
  async #given(row: Pick<ConversationRow, "id" | "config">): Promise<readonly AgentDefinition[]> {
    return (await this.#deps.agents.clientAgent(row))?.definitions ?? [];
  }

  async #load(row: ConversationRow): Promise<readonly AgentDefinition[]> {
    const { contexts, workspaces, behaviours, acceptances } = this.#deps;
    const { userId, sandboxId } = row;
    const sandbox = await workspaces.getOrCreate(row).runSandbox();
    const { plugins = [] } = await contexts.get(row.id);
    const place = toPlace(row, plugins);
    const found = await loadAgentDefinitions(sandbox, { workingDir: place.workingDir, plugins });
    if (!found.some(asksForMore)) return found;
    // The files may be newer than what was found at the start.
    await behaviours.find(place, sandbox, { agents: found });
    return (await acceptances.withheld(userId, sandboxId)) === undefined ? found : found.map(asItsParent);
  }

  async #checkModel(
    { userId }: ConversationRow,
    { name, model }: AgentDefinition,
  ): Promise<string | undefined> {
    if (!model || (await this.#deps.settings.profileModel(userId, model))?.model) return undefined;
    return `The sub-agent ${name} asks for the LLM profile ${model.slice(0, 60)}, which the settings do not have.`;
  }
}

/** The sub-agent asks as often as its parent, and has its model. */
function asItsParent(definition: AgentDefinition): AgentDefinition {
  if (!asksForMore(definition)) return definition;
  const { permissionMode: _mode, model: _model, ...rest } = definition;
  return rest;
}
