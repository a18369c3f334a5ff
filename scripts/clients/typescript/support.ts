import { setTimeout as sleep } from "node:timers/promises";
import { Agent, type Event, RemoteConversation, RemoteWorkspace } from "@openhands/typescript-client";

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

/** Works in the workspace of a new sandbox. */
export async function inWorkspace(work: (workspace: RemoteWorkspace) => Promise<void>): Promise<void> {
  await inSandbox(async (at) => {
    const workspace = new RemoteWorkspace({ ...at, workingDir: "/workspace/project" });
    await work(workspace);
    workspace.close();
  });
}

export interface OpenConversation {
  conversation: RemoteConversation;
  workspace: RemoteWorkspace;
  /** The events that arrived over the socket, in order. */
  seen: Event[];
  /** Resolves with the first of these statuses that the conversation has. */
  reaches(...statuses: string[]): Promise<string>;
  /** Sends a message, runs the agent, and waits until it has finished. */
  turn(message: string): Promise<void>;
}

/** Works with a started conversation whose events arrive over its socket. */
export async function withConversation(work: (open: OpenConversation) => Promise<void>): Promise<void> {
  await inWorkspace(async (workspace) => {
    const seen: Event[] = [];
    const base_url = process.env.MODEL_URL;
    const llm = { model: "openai/scripted", api_key: "sk-scripted", base_url };
    const agent = new Agent({ llm, tools: [{ name: "terminal" }] } as never);
    const callback = (event: Event) => void seen.push(event);
    const conversation = new RemoteConversation(agent, workspace, { callback });
    await conversation.start();
    await conversation.startWebSocketClient();
    const reaches = (...statuses: string[]) =>
      until(async () => {
        const found: string = (await conversation.state.refresh()).execution_status;
        if (found === "error") throw new Error("The run ended with an error.");
        return statuses.includes(found) ? found : undefined;
      });
    const turn = async (message: string) => {
      await conversation.sendMessage(message);
      await conversation.run();
      await reaches("finished");
    };
    await work({ conversation, workspace, seen, reaches, turn });
    await conversation.close();
  });
}
