import type { RemoteConversation, RemoteWorkspace } from "@openhands/typescript-client";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, startTestPlatform, type TestPlatform, until } from "../support/platform.ts";
import { obey } from "../support/script.ts";

/** Whole conversations with the released TypeScript client, below a sandbox and at the root. */

let clients: typeof import("@openhands/typescript-client/clients") &
  typeof import("@openhands/typescript-client");
let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;

beforeAll(async () => {
  // The client opens sockets by the browser's class, which it looks for when it is loaded.
  vi.stubGlobal("window", { WebSocket });
  clients = {
    ...(await import("@openhands/typescript-client/clients")),
    ...(await import("@openhands/typescript-client")),
  };
  models = await startModelServer((request) => {
    const { messages } = request;
    const last = messages.at(-1)!;
    if (last.text.startsWith("Say")) return reply.text("It is said.");
    return obey(request);
  });
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  vi.unstubAllGlobals();
  await platform?.stop();
  await models?.close();
});

interface Life {
  remote: RemoteConversation;
  workspace: RemoteWorkspace;
  frames: Json[];
  /** Resolves when the last status from the socket is this. */
  is(status: string): Promise<unknown>;
}

/** A conversation created below a sandbox, or at the root for clients that drop the path. */
async function begin(host: string): Promise<Life> {
  const workspace = new clients.RemoteWorkspace({
    host,
    apiKey: agent.key,
    workingDir: "/workspace/project",
  });
  const frames: Json[] = [];
  const { agent: given } = sdkRequest(models.url);
  const streaming = { ...given, llm: { ...given.llm, stream: true } };
  const remote = new clients.RemoteConversation(streaming, workspace, {
    callback: (event) => void frames.push(event as Json),
    onError: (error) => void frames.push({ kind: "error", error: error.message }),
  });
  await remote.start();
  await remote.startWebSocketClient();
  await until(() => frames.some(({ key }) => key === "full_state") || undefined);
  const statuses = () => frames.filter(({ key }) => key === "execution_status").map(({ value }) => value);
  return {
    remote,
    workspace,
    frames,
    is: (status) => until(() => statuses().at(-1) === status || undefined),
  };
}

test.each(["below the sandbox's address", "at the root"])(
  "a conversation %s: send, run, stream, confirm, reject, pause, resume, fork, navigate",
  async (where) => {
    const host = where === "at the root" ? platform.url : agent.url;
    const { remote, frames, is } = await begin(host);
    await remote.sendMessage("run: echo one > one.txt");
    await remote.run();
    await is("finished");
    // The client may show an event before it keeps the state that the event brings.
    await until(async () => (await remote.state.getExecutionStatus()) === "finished" || undefined);
    expect(await remote.getAgentFinalResponse()).toBe("Done.");

    await remote.setConfirmationPolicy({ kind: "AlwaysConfirm" });
    // The client stores the state of the socket.
    await until(
      async () =>
        ((await remote.state.getConfirmationPolicy()) as Json).kind === "AlwaysConfirm" || undefined,
    );
    await remote.sendMessage("run: echo approved > approved.txt");
    await remote.run();
    await is("waiting_for_confirmation");
    await remote.sendConfirmationResponse(true);
    await is("finished");
    await remote.sendMessage("run: echo refused > refused.txt");
    await remote.run();
    await is("waiting_for_confirmation");
    await remote.sendConfirmationResponse(false, "Not now");
    await is("idle");
    expect(frames.findLast(({ kind }) => kind === "UserRejectObservation")).toMatchObject({
      rejection_reason: "Not now",
    });
    await remote.setConfirmationPolicy({ kind: "NeverConfirm" });
    await remote.setSecurityAnalyzer(null);

    await remote.sendMessage("run: sleep 1");
    await remote.run();
    await until(() => frames.some(({ action }) => action?.command === "sleep 1") || undefined);
    await remote.pause();
    await is("paused");
    await remote.run();
    await is("finished");

    await remote.sendMessage("Say it piece by piece");
    await remote.run();
    await until(
      () => frames.some(({ kind, content }) => kind === "StreamingDeltaEvent" && content) || undefined,
    );
    await is("finished");

    expect(await remote.askAgent("Say something")).toBe("It is said.");
    await remote.setTitle("A life");
    await remote.updateSecrets({ TOKEN: "planted-secret" });
    await remote.condense().catch(() => {});
    const events = await remote.state.events.getEvents();
    expect(JSON.stringify([events, await remote.state.modelDump()])).not.toMatch(
      /planted-secret|sk-own-model-key/,
    );

    const plain = new clients.ConversationClient({ host, apiKey: agent.key });
    const stored = await plain.getEventCount(remote.id);
    const forked = await remote.fork({ title: "Another life" });
    await forked.start();
    expect(forked.id).not.toBe(remote.id);
    await forked.sendMessage("Say more");
    await forked.run();
    await until(async () => (await forked.state.refresh()).execution_status === "finished" || undefined);
    expect(await plain.getEventCount(remote.id)).toBe(stored);
    const first = events.find(({ kind, source }: Json) => kind === "MessageEvent" && source === "user")!;
    await remote.navigateTo(first.id);
    expect((await remote.state.refresh()).leaf_event_id).toBe(first.id);

    const list = await plain.searchConversations({ limit: 10 });
    expect(list.items.map(({ title }) => title)).toEqual(expect.arrayContaining(["A life", "Another life"]));
    expect(frames.filter(({ kind }) => kind === "error")).toEqual([]);
    await plain.deleteConversation(forked.id);
    await expect(plain.getConversation(forked.id)).rejects.toMatchObject({ status: 404 });
    plain.close();
    await forked.close();
    await remote.close();
  },
);

test("the workspace streams command output, transfers files and reads git", async () => {
  const workspace = new clients.RemoteWorkspace({
    host: agent.url,
    apiKey: agent.key,
    workingDir: "/workspace/project",
  });
  const pieces: Json[] = [];
  const live = new clients.BashWebSocketClient({
    host: agent.url,
    apiKey: agent.key,
    callback: (event) => void pieces.push(event as Json),
  });
  live.start();
  expect(await workspace.executeCommand("echo out; echo err >&2; exit 4", "/workspace")).toMatchObject({
    exit_code: 4,
    stdout: "out\n",
    stderr: "err\n",
  });
  await until(
    () => pieces.some(({ kind, exit_code }) => kind === "BashOutput" && exit_code === 4) || undefined,
  );
  live.stop();
  expect(await workspace.uploadText("sent\n", "/workspace/repo/sent.txt")).toMatchObject({ success: true });
  expect(await workspace.downloadAsText("/workspace/repo/sent.txt")).toBe("sent\n");
  await workspace.executeCommand(
    "git init -q && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first",
    "/workspace/repo",
  );
  expect(await workspace.gitChanges("/workspace/repo")).toEqual([{ status: "ADDED", path: "sent.txt" }]);
  expect(await workspace.gitDiff("/workspace/repo/sent.txt")).toEqual({ original: null, modified: "sent\n" });
  workspace.close();
});
