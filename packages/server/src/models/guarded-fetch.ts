/** More than any model says in one answer, framing included, bytes. */
export const maxAnswerBytes = 64 * 1024 * 1024;

/**
 * A fetch for calls with a key to an address that may be wrong or hostile. A redirect would carry the key's header to another host, so it
 * is answered like any other unexpected status. A web page is refused at once, an answer that does not end at `maxBytes`.
 */
export function guardedFetch(fetch: typeof globalThis.fetch, maxBytes = maxAnswerBytes): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await fetch(input, { ...init, redirect: "manual" });
    if (!response.ok || !response.body) return response;
    if (/^\s*text\/html/i.test(response.headers.get("content-type") ?? "")) {
      await response.body.cancel();
      throw new Error("the endpoint answered with a web page - check llm_base_url");
    }
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(limit(maxBytes)), { status, statusText, headers });
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
