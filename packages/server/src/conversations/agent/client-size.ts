import { PlatformError } from "@sandpiper/core/errors";
import type { AgentDocument } from "../../store/conversation-parts.ts";

/** Maximum characters of a client's JSON, which each list of conversations parses. */
const maxLength = 4 * 2 ** 20;

/** Maximum bytes without long texts and skills, which http/sockets/shorten.ts cannot shorten. */
const maxStructure = 512 * 1024;

/** Length of a shortened text in a frame, characters. */
const shortTextLength = 128;

/** Throws InvalidParameter when a client's document exceeds the limits. */
export function checkClientSize(document: AgentDocument): void {
  if (JSON.stringify(document).length > maxLength)
    throw new PlatformError("AgentDocumentTooLarge", { limit: "4 MiB of JSON" });
  const { agent, ...rest } = document;
  const framed = {
    ...rest,
    agent: agent && { ...agent, agent_context: { ...agent.agent_context, skills: [] } },
  };
  const cut = JSON.stringify(framed, (_key, value) =>
    typeof value === "string" ? value.slice(0, shortTextLength) : value,
  );
  if (Buffer.byteLength(cut) > maxStructure)
    throw new PlatformError("AgentDocumentTooLarge", { limit: "512 KiB without long texts and skills" });
}
