import { easeEventStream } from "@sandpiper/core/outbound/event-stream";
import { splitFrames } from "./event-stream-frames.ts";

/** More than any model says in one answer, framing included, bytes. */
export const maxAnswerBytes = 64 * 1024 * 1024;

/**
 * A fetch for calls with a key to an address that may be wrong or hostile. Redirects are not
 * followed, because they would carry the key to another host. A web page, or JSON instead of a
 * stream, is refused at once; a response ends at `maxBytes`.
 */
export function guardedFetch(
  fetch: typeof globalThis.fetch,
  maxBytes = maxAnswerBytes,
): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await fetch(input, { ...init, redirect: "manual" });
    if (!response.ok || !response.body) return response;
    const type = response.headers.get("content-type") ?? "";
    if (/^\s*text\/html/i.test(type)) {
      await response.body.cancel();
      throw new Error("the endpoint answered with a web page - check llm_base_url");
    }
    if (/^\s*application\/json/i.test(type)) {
      throw new Error(
        `the endpoint answered with JSON instead of a stream: ${await beginning(response.body)}`,
      );
    }
    const { status, statusText, headers } = response;
    const limited = response.body.pipeThrough(limit(maxBytes));
    const isBinary = /^\s*application\/vnd\.amazon\.eventstream/i.test(type);
    return new Response(
      isBinary ? limited.pipeThrough(splitFrames()) : limited.pipeThrough(easeEventStream()),
      {
        status,
        statusText,
        headers,
      },
    );
  };
}

function limit(maxBytes: number): TransformStream<Uint8Array, Uint8Array> {
  let total = 0;
  return new TransformStream({
    transform(chunk, controller) {
      total += chunk.byteLength;
      if (total <= maxBytes) controller.enqueue(chunk);
      else controller.error(new Error(`the endpoint's answer is longer than ${maxBytes} bytes`));
    },
  });
}

/** The first characters of a body, of which no more is read. */
async function beginning(body: ReadableStream<Uint8Array>): Promise<string> {
  const reader = body.getReader();
  const { value = new Uint8Array() } = await reader.read().catch(() => ({ value: undefined }));
  await reader.cancel().catch(() => {});
  return new TextDecoder().decode(value.subarray(0, 500)).trim() || "nothing";
}
