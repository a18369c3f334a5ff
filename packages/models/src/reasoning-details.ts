import type { MetadataExtractor } from "@ai-sdk/openai-compatible";
import type { SharedV4ProviderMetadata, SharedV4ProviderOptions } from "@ai-sdk/provider";
import type { ThinkingBlock } from "@sandpiper/wire";
import type { ModelAddress } from "./resolve.ts";
import { detailsPrefix } from "./thinking.ts";

/**
 * OpenRouter sends a model's thoughts as `reasoning_details` and needs the same list back with the
 * turn, otherwise some models refuse to continue or start over. The log stores the list as one
 * redacted thinking block, which only the same model gets back.
 */

type Detail = Record<string, string | number | boolean | null>;

/** Characters and entries of one answer's details: beyond them none is kept. */
const maxCharacters = 1024 * 1024;
const maxDetails = 2_000;

/** Fields that come in pieces. */
const growing = { "reasoning.text": "text", "reasoning.summary": "summary" } as const;

/** Whether an address answers with such details. */
export function hasReasoningDetails({
  provider,
  baseUrl,
}: Pick<ModelAddress, "provider" | "baseUrl">): boolean {
  return provider === "openrouter" || /(?:^|\.)openrouter\.ai$/.test(URL.parse(baseUrl)?.hostname ?? "");
}

/** Gathers the details of an answer for the client of chat completions. */
export const detailsExtractor: MetadataExtractor = {
  // Answers are always streamed.
  extractMetadata: async () => undefined,
  createStreamExtractor() {
    const details: Detail[] = [];
    let characters = 0;
    return {
      processChunk(chunk) {
        for (const detail of readDetails(chunk)) {
          characters += JSON.stringify(detail).length;
          if (characters <= maxCharacters && details.length <= maxDetails) addDetail(details, detail);
        }
      },
      buildMetadata() {
        if (details.length === 0 || characters > maxCharacters || details.length > maxDetails)
          return undefined;
        return { openrouter: { reasoningDetails: details } };
      },
    };
  },
};

function readDetails(chunk: unknown): Detail[] {
  const { choices } = (chunk ?? {}) as { choices?: { delta?: { reasoning_details?: unknown } | null }[] };
  const given = Array.isArray(choices) ? choices[0]?.delta?.reasoning_details : undefined;
  return Array.isArray(given) ? given.flatMap(readDetail) : [];
}

/** Plain members only, with a type. */
function readDetail(given: unknown): Detail[] {
  if (typeof given !== "object" || given === null || typeof (given as Detail).type !== "string") return [];
  const plain = Object.entries(given).filter(
    ([, value]) => value === null || /^(?:string|number|boolean)$/.test(typeof value),
  );
  return [Object.fromEntries(plain) as Detail];
}

/** Pieces of one text follow each other; its signature comes with the last of them. */
function addDetail(details: Detail[], detail: Detail): void {
  const last = details.at(-1);
  const field = growing[detail.type as keyof typeof growing];
  if (!field || !last || last.type !== detail.type || last.index !== detail.index)
    return void details.push(detail);
  const text = `${last[field] ?? ""}${detail[field] ?? ""}`;
  const known = Object.entries(detail).filter(([, value]) => value !== null);
  Object.assign(last, Object.fromEntries(known), { [field]: text });
}

/** The block that keeps the details which came with an answer of this model, if some did. */
export function detailsBlock(
  metadata: SharedV4ProviderMetadata | undefined,
  model: string,
): ThinkingBlock | undefined {
  const details = metadata?.openrouter?.reasoningDetails;
  return details === undefined
    ? undefined
    : { type: "redacted_thinking", data: detailsPrefix + JSON.stringify({ model, details }) };
}

/** Blocks that were read before: a history is sent with each call. */
const read = new WeakMap<ThinkingBlock, { model: unknown; options: SharedV4ProviderOptions | undefined }>();

/** Fields that the chat completions client adds to a turn that this model wrote. */
export function replayDetails(
  blocks: readonly ThinkingBlock[],
  model: string,
): SharedV4ProviderOptions | undefined {
  const block = blocks.find((one) => one.type === "redacted_thinking" && one.data.startsWith(detailsPrefix));
  if (block?.type !== "redacted_thinking") return undefined;
  const known = read.get(block) ?? readBlock(block.data.slice(detailsPrefix.length));
  read.set(block, known);
  return known.model === model ? known.options : undefined;
}

/** A log may have been written by others. */
function readBlock(json: string): { model: unknown; options: SharedV4ProviderOptions | undefined } {
  try {
    const { model, details } = JSON.parse(json) as { model?: unknown; details?: unknown };
    const reasoning_details = Array.isArray(details) ? details.flatMap(readDetail) : [];
    return {
      model,
      options: reasoning_details.length > 0 ? { openaiCompatible: { reasoning_details } } : undefined,
    };
  } catch {
    return { model: undefined, options: undefined };
  }
}
