import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import { type GivenLlm, isMasked } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Settings } from "../../users/api.ts";
import { checkClientSize } from "../agent/client-size.ts";
import { requireLocal } from "../lookup.ts";
import type { Announcements } from "../run/announcements.ts";

export interface ModelSwitchesDeps {
  store: Pick<Store, "conversations" | "agents">;
  settings: Pick<Settings, "profileModel">;
  announcements: Pick<Announcements, "announceCurrent">;
}

/** Switches the models of conversations. Every method throws ConversationNotFound. */
export class ModelSwitches {
  readonly #deps: ModelSwitchesDeps;
  /** Serialises read-modify-write changes of a conversation. */
  readonly #changes = new KeyedMutex();

  constructor(deps: ModelSwitchesDeps) {
    this.#deps = deps;
  }

  /** Makes the next model call use an LLM profile of the user. Throws ProfileNotFound. */
  async switchProfile({ id, userId }: ConversationRow, profile: string): Promise<void> {
    const { settings, store, announcements } = this.#deps;
    if (!(await settings.profileModel(userId, profile))?.model)
      throw new PlatformError("LlmProfileUnknown", { name: profile });
    await store.conversations.update(id, { config: { llmProfile: profile } });
    announcements.announceCurrent(id, "agent");
  }

  /**
   * Makes the next model call use this model. Masked secrets mean those of the conversation's
   * current model at the same address. Throws InvalidParameter when the description is too long,
   * and ConversationExternal.
   */
  async switchLlm(row: ConversationRow, description: GivenLlm): Promise<void> {
    requireLocal(row);
    const { store, announcements } = this.#deps;
    const { id } = row;
    await this.#changes.run(id, async () => {
      const now = (await store.conversations.get(id)) ?? row;
      await store.agents.change(id, (stored) => {
        const own = now.config.ownAgent ? stored : undefined;
        const document = { ...own, llm: restoreSecrets(description, own?.llm ?? own?.agent?.llm) };
        checkClientSize(document);
        return document;
      });
      // Switches at two nodes have different revisions.
      const llmRevision = Math.max((now.config.llmRevision ?? 0) + 1, Date.now());
      await store.conversations.update(id, {
        config: { ownAgent: true, llmModel: description.model, llmProfile: null, llmRevision },
      });
    });
    announcements.announceCurrent(id, "agent");
  }
}

const keyFields = ["api_key", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"] as const;

/**
 * Replaces the masked secrets of a model description by those of the model before, if both have the
 * same address and provider; otherwise removes them.
 */
function restoreSecrets(llm: GivenLlm, before: GivenLlm | undefined): GivenLlm {
  const provider = ({ model }: GivenLlm) => model.split("/").slice(0, -1).join("/");
  const sameAddress = (before?.base_url ?? null) === (llm.base_url ?? null);
  const source = before && sameAddress && provider(before) === provider(llm) ? before : undefined;
  const restored: GivenLlm = { ...llm };
  for (const name of keyFields) if (isMasked(llm[name] ?? "")) restored[name] = source?.[name] ?? null;
  if (!llm.extra_headers) return restored;
  const previous = new Map(Object.entries(source?.extra_headers ?? {}));
  const headers = Object.entries(llm.extra_headers).flatMap(([name, value]): [string, string][] => {
    const header = isMasked(value) ? previous.get(name) : value;
    return header === undefined ? [] : [[name, header]];
  });
  return { ...restored, extra_headers: Object.fromEntries(headers) };
}
