import { PlatformError } from "@sandpiper/core/errors";
import type { AgentDocument } from "../../store/conversation-parts.ts";

/** Most characters of JSON that a client gives with a conversation: each list of conversations opens it again. */
const maxLength = 4 * 2 ** 20;

/** Most bytes of it without its long texts and skills: all of that stands in frames, in which only long texts can be cut (http/sockets/shorten.ts). */
const maxStructure = 512 * 1024;

/** What is left of a long text in a frame that is cut, with the words that say so, characters. */
const cutText = 128;

/** Throws InvalidParameter where a client gives more with a conversation than others have time for. */
export function checkClientSize(document: AgentDocument): void {
  if (JSON.stringify(document).length > maxLength) throw tooLong("4 MiB of JSON");
  const { agent, ...rest } = document;
  const shown = {
    ...rest,
    agent: agent && { ...agent, agent_context: { ...agent.agent_context, skills: [] } },
  };
  const cut = JSON.stringify(shown, (_key, value) =>
    typeof value === "string" ? value.slice(0, cutText) : value,
  );
  if (Buffer.byteLength(cut) > maxStructure) throw tooLong("512 KiB without long texts and skills");
}

function tooLong(limit: string): PlatformError {
  return new PlatformError(
    "InvalidParameter",
    `Agent, tools and hooks of a conversation may together have ${limit} at most.`,
  );
}
