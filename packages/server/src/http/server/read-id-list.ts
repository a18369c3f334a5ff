import { PlatformError } from "@sandpiper/core/errors";
import type { FastifyRequest } from "fastify";
import { InvalidInput } from "./invalid-input.ts";
import { parseJson } from "./json.ts";

/** Largest body of a reading request, bytes: a list of some thousand ids. */
const maxBytes = 256 * 1024;

/**
 * The list of texts that released clients send as the body of a GET (agent-server.md sections 5 and 7); none where there is no body. Fastify leaves
 * such a body alone. Throws InvalidInput, BodyTooLarge.
 */
export async function readTextList({ raw }: Pick<FastifyRequest, "raw">): Promise<string[]> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of raw as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBytes)
      throw new PlatformError("BodyTooLarge", `The body may have at most ${maxBytes} bytes.`);
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
