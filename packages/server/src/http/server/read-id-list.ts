import { PlatformError } from "@sandpiper/core/errors";
import type { FastifyRequest } from "fastify";
import { InvalidInput } from "./invalid-input.ts";
import { parseJson } from "./json.ts";

/** Maximum body of a GET request, bytes: a few thousand ids. */
const maxBytes = 256 * 1024;

/**
 * The list of ids that released clients send as the body of a GET, empty without a body
 * (agent-server.md sections 5 and 7). Fastify does not parse such a body. Throws InvalidInput,
 * BodyTooLarge.
 */
export async function readIdList({ raw }: Pick<FastifyRequest, "raw">): Promise<string[]> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of raw as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBytes) throw new PlatformError("ListBodyTooLarge", { maxBytes });
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks).toString();
  if (text.trim() === "") return [];
  const value = parseJson(text);
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value;
  throw new InvalidInput([
    { loc: ["body"], msg: "Input should be a valid list of texts", type: "list_type" },
  ]);
}
