import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import { notice } from "@sandpiper/agent/loop/records";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import type { Behaviour } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Acceptances, Secrets } from "../../users/api.ts";
import { type ProjectBehaviours, toPlace, type UsedParts } from "../project/behaviours.ts";
import type { ProjectContexts } from "../project/project-context.ts";

export interface RestrictionsDeps {
  acceptances: Pick<Acceptances, "pending" | "withheld">;
  behaviours: Pick<ProjectBehaviours, "find">;
  contexts: Pick<ProjectContexts, "get" | "change">;
  secrets: Pick<Secrets, "forSandbox">;
  sandboxes: Pick<Sandboxes, "get" | "getSpec">;
}

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

/** Tells users what projects may not do until they accept it. */
export class Restrictions {
  readonly #deps: RestrictionsDeps;

  constructor(deps: RestrictionsDeps) {
    this.#deps = deps;
  }

  async isRestricted({ userId, sandboxId }: Row): Promise<boolean> {
    return (await this.#deps.acceptances.withheld(userId, sandboxId)) !== undefined;
  }

  /**
   * Finds what a project does by itself; `used` is about to be used. Returns the notice. Throws
   * what `exec` throws.
   */
  async find(row: Row, sandbox: CommandRunner, used: UsedParts): Promise<NewRecord[]> {
    const { plugins = [] } = await this.#deps.contexts.get(row.id);
    await this.#deps.behaviours.find(toPlace(row, plugins), sandbox, used);
    return this.notices(row);
  }

  /** The notice about a restriction, once for a conversation and behaviour. */
  async notices(row: Row): Promise<NewRecord[]> {
    const { acceptances, contexts } = this.#deps;
    const found = await acceptances.pending(row.userId, row.sandboxId);
    if (!found || (await contexts.get(row.id)).noticed?.includes(found.digest)) return [];
    if (!(await this.#takesEffect(row, found))) return [];
    let isNew = false;
    await contexts.change(row.id, (before) => {
      const noticed = new Set(before.noticed);
      isNew = !noticed.has(found.digest);
      return { ...before, noticed: [...noticed.add(found.digest)] };
    });
    return isNew ? [notice(describe(found))] : [];
  }

  /** Whether anything is withheld: without secrets, only some parts are. */
  async #takesEffect({ userId, sandboxId }: Row, { parts }: Behaviour): Promise<boolean> {
    const { secrets, sandboxes } = this.#deps;
    if (parts.some(({ kind }) => kind === "model_hook" || kind === "sub_agent")) return true;
    if ((await secrets.forSandbox(userId, sandboxId)).length > 0) return true;
    const record = await sandboxes.get(userId, sandboxId);
    return record !== undefined && sandboxes.getSpec(record).network.credentials.length > 0;
  }
}

const names: Readonly<Record<Behaviour["parts"][number]["kind"], string>> = {
  setup_script: "a set-up script",
  pre_commit: "a pre-commit script",
  hook: "hooks",
  model_hook: "questions to your model",
  mcp_server: "MCP servers",
  skill_command: "commands in skills",
  git_setting: "programs in git's settings",
  sub_agent: "sub-agents with other rights or models",
  file: "",
};

function describe({ origin, parts, link }: Behaviour): string {
  const kinds = [...new Set(parts.map(({ kind }) => names[kind]))].filter(Boolean);
  return (
    `${origin} brings ${kinds.join(", ")}. Until you accept it, this sandbox gets none of your secrets and tokens, ` +
    `and no model is asked for the repository. Read and accept it: ${link} . It takes effect with the next turn; ` +
    "a set-up script that needs a secret must then be run again."
  );
}
