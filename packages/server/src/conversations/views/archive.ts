import { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import type { AppConversation } from "@sandpiper/wire";
import yazl from "yazl";
import type { EventLog } from "../../store/event-log.ts";

const maxEvents = 100_000;
/** Events in memory at a time. */
const pageSize = 100;

/**
 * A conversation as a zip of `meta.json` and one `event_000000_<event id>.json` per event, without
 * credentials and without events that arrive during the download (app-server.md section 2.9). `id`
 * is dashed. Throws ConversationTooLarge.
 */
export async function conversationArchive(
  events: EventLog,
  id: string,
  conversation: AppConversation,
): Promise<Readable> {
  const total = await events.count(id);
  if (total > maxEvents) throw new PlatformError("TooManyEventsForArchive", { max: maxEvents });
  const zip = new yazl.ZipFile();
  const out = zip.outputStream as Readable;
  zip.on("error", (error) => out.destroy(error as Error));
  const meta = { ...conversation, session_api_key: null, conversation_url: null };
  zip.addBuffer(Buffer.from(JSON.stringify(meta, undefined, 2)), "meta.json");

  // A page is read when the last event of the previous page is written; written texts are released.
  const addPage = async (first: number): Promise<void> => {
    const { items } = await events.search(id, {
      pageId: String(first),
      limit: Math.min(pageSize, total - first),
    });
    const texts: (string | undefined)[] = items;
    const next = first + texts.length;
    for (const [index, json] of items.entries()) {
      const { id: eventId } = JSON.parse(json) as { id: string };
      const name = `event_${String(first + index).padStart(6, "0")}_${eventId.replaceAll(/[^\w-]/g, "_")}.json`;
      zip.addReadStreamLazy(name, (callback) => {
        const text = Buffer.from(texts[index]!);
        texts[index] = undefined;
        if (first + index + 1 === next) addNext(next);
        callback(null, Readable.from([text]));
      });
    }
    // The conversation may be deleted during the download.
    if (items.length === 0) zip.end();
  };
  const addNext = (first: number) => {
    if (first < total) addPage(first).catch((error: Error) => out.destroy(error));
    else zip.end();
  };
  addNext(0);
  return out;
}
