import type { BenchServer } from "./server-process.ts";

/**
 * Sends `perSecond` messages to conversations in turn; no agent answers. Returns the function that
 * ends it, which throws if one was refused.
 */
export function startAppends(
  { url, headers }: BenchServer,
  ids: readonly string[],
  perSecond: number,
): () => Promise<void> {
  const body = JSON.stringify({
    role: "user",
    content: [{ type: "text", text: "One more thing." }],
    run: false,
  });
  const begin = performance.now();
  const answers: Promise<unknown>[] = [];
  const send = async () => {
    const path = `/api/conversations/${ids[answers.length % ids.length]}/events`;
    const init = { method: "POST", body, headers: { ...headers, "content-type": "application/json" } };
    const response = await fetch(url + path, init);
    if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${await response.text()}`);
    await response.arrayBuffer();
  };
  // Uses the elapsed time, so that a busy moment is compensated.
  const timer = setInterval(() => {
    while (answers.length < ((performance.now() - begin) * perSecond) / 1000) {
      const answer = send();
      answer.catch(() => {});
      answers.push(answer);
    }
  }, 1000 / perSecond);
  return async () => {
    clearInterval(timer);
    await Promise.all(answers);
  };
}
