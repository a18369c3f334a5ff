import { setTimeout as sleep } from "node:timers/promises";

/** What the checks share. */
export const url = process.env.URL!;
export const key = process.env.KEY!;

/** What the checks read of a sandbox. */
interface Sandbox {
  id: string;
  status: string;
  session_api_key: string;
  exposed_urls: { name: string; url: string }[];
}

async function call<T>(method: string, path: string): Promise<T> {
  const answer = await fetch(url + path, { method, headers: { "X-Session-API-Key": key } });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}

/** Asks again until there is an answer. */
export async function until<T>(ask: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await sleep(30);
  }
}

/** Works in a sandbox's agent server, and deletes the sandbox. */
export async function inSandbox(
  work: (at: { host: string; apiKey: string; id: string }) => Promise<void>,
): Promise<void> {
  const { id } = await call<Sandbox>("POST", "/api/v1/sandboxes");
  try {
    const sandbox = await until(async () => {
      const [found] = await call<Sandbox[]>("GET", `/api/v1/sandboxes?id=${id}`);
      return found?.status === "RUNNING" ? found : undefined;
    });
    const host = sandbox.exposed_urls.find(({ name }) => name === "AGENT_SERVER")!.url;
    await work({ host, apiKey: sandbox.session_api_key, id });
  } finally {
    await call("DELETE", `/api/v1/sandboxes/${id}?sandbox_id=${id}`);
  }
}
