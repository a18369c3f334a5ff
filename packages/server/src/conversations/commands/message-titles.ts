import { type Content, hexId } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { OutputMasks } from "../agent/output-masks.ts";
import { makeTitle } from "../log/messages.ts";
import type { Announcements } from "../run/announcements.ts";
import type { GeneratedTitles } from "../run/titles.ts";

export interface MessageTitlesDeps {
  store: Pick<Store, "conversations">;
  masks: Pick<OutputMasks, "forConversation">;
  announcements: Pick<Announcements, "announceField">;
  generated: Pick<GeneratedTitles, "generate">;
}

/** Titles conversations with the first line of a message, until a title is generated. */
export class MessageTitles {
  readonly #deps: MessageTitlesDeps;

  constructor(deps: MessageTitlesDeps) {
    this.#deps = deps;
  }

  /** `row`: before the message. */
  async update(
    row: ConversationRow,
    content: readonly Content[],
    { isFirst }: { isFirst: boolean },
  ): Promise<void> {
    const { store, masks, announcements, generated } = this.#deps;
    const { id } = row;
    const mask = await masks.forConversation(row);
    const title = makeTitle(content, (text) => mask.text(text));
    const titlesFirst = isFirst && row.config.autotitle !== false;
    const untitled = row.title === null ? titlesFirst : row.title === `Conversation ${hexId(id).slice(0, 5)}`;
    const isReplaced =
      untitled && title !== undefined && (await store.conversations.replaceTitle(id, row.title, title));
    if (isReplaced || (titlesFirst && row.title === title)) generated.generate(id, content);
    if (isReplaced) announcements.announceField(id, "title", title);
  }
}
