import {
  type ModelServer,
  type Reply,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";

let server: TestPlatform;
let models: ModelServer;
let script: Script;

/** Sets the answers of the next model calls and stores the scripted model in the settings. */
async function useModel(replies: Reply[] | Script, model = "openai/scripted"): Promise<void> {
  const first = models.requests.length;
  script = Array.isArray(replies)
    ? ({ index }) => replies[index - first] ?? reply.text("The script has ended.")
    : replies;
  const settings = { llm_model: model, llm_api_key: "sk-planted-secret", llm_base_url: models.url };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
}

async function events(id: string): Promise<Json[]> {
  return (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).body.items;
}

async function conversation(id: string): Promise<Json> {
  return (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0];
}

const waitForEnd = (id: string, status = "finished") =>
  until(async () => {
    const found = await conversation(id);
    return found.execution_status === status ? found : undefined;
  });

beforeAll(async () => {
  models = await startModelServer((request) => script(request));
  server = await startTestPlatform();
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
});

test("an interrupt stops a running command at once, and a new message continues in the same shell", async () => {
  await useModel([
    reply.toolCalls([terminal("cd /tmp && export MARK=kept")]),
    reply.toolCalls([terminal("sleep 100")]),
    reply.toolCalls([terminal("echo $MARK $PWD")]),
    finish("Done."),
  ]);
  const { id } = await startConversation(server.call, "Sleep");
  await until(
    async () => (await events(id)).filter(({ kind }) => kind === "ActionEvent").length === 2 || undefined,
  );
  const start = performance.now();
  expect((await server.call("POST", `/api/conversations/${id}/interrupt`, {})).status).toBe(200);
  expect(performance.now() - start).toBeLessThan(30_000);
  expect((await conversation(id)).execution_status).toBe("paused");
  expect((await events(id)).at(-1)?.kind).toBe("InterruptEvent");

  await server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text: "Go on" }],
    run: true,
  });
  await waitForEnd(id);
  const output = (await events(id)).filter(({ kind }) => kind === "ObservationEvent").at(-2);
  expect(output?.observation.content[0].text).toBe("kept /tmp\n");
});

test("a pause takes effect after the step, and a run request continues", async () => {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const first = models.requests.length;
  await useModel(async ({ index }) => {
    if (index > first) return finish("Done.");
    await held;
    return reply.toolCalls([terminal("echo stepped")]);
  });
  const { id } = await startConversation(server.call, "Work");
  await until(() => models.requests.length > first || undefined);
  await server.call("POST", `/api/conversations/${id}/pause`, {});
  release();
  await until(async () => (await events(id)).some(({ kind }) => kind === "ObservationEvent") || undefined);
  expect((await conversation(id)).execution_status).toBe("paused");
  expect(models.requests.length).toBe(first + 1);
  expect((await server.call("POST", `/api/conversations/${id}/run`, {})).status).toBe(200);
  await waitForEnd(id);
});

test("a message wakes the sandbox that was paused under a command, which then ends", async () => {
  await useModel([reply.toolCalls([terminal("touch begun; sleep 1; echo woke")]), reply.text("Done.")]);
  const { id, sandboxId } = await startConversation(server.call, "Wait");
  await until(
    async () =>
      (await server.call("GET", `/api/v1/sandboxes/${sandboxId}/files?path=begun`)).status === 200 ||
      undefined,
  );
  expect(await server.call("POST", `/api/v1/sandboxes/${sandboxId}/pause`)).toMatchObject({ status: 200 });
  await server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text: "Go on" }],
    run: true,
  });
  await waitForEnd(id);
  const [observation] = (await events(id)).filter(({ kind }) => kind === "ObservationEvent");
  expect(observation?.observation).toMatchObject({ exit_code: 0, content: [{ text: "woke\n" }] });
});

test("a message that arrives while the agent works is read before the turn ends", async () => {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const first = models.requests.length;
  await useModel(async ({ index, messages }) => {
    if (index === first) {
      await held;
      return reply.text("Finished with the first.");
    }
    return reply.text(`And the second: ${messages.at(-1)?.text}`);
  });
  const { id } = await startConversation(server.call, "First");
  await until(() => models.requests.length > first || undefined);
  await server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text: "SECOND" }],
    run: true,
  });
  release();
  await until(async () => JSON.stringify(await events(id)).includes("And the second: SECOND") || undefined);
  await waitForEnd(id);
});

test("with confirmation_mode the agent asks, acts when approved, and stops when rejected", async () => {
  await server.call("POST", "/api/settings", { confirmation_mode: true, security_analyzer: "" });
  try {
    await useModel([
      reply.toolCalls([terminal("touch /tmp/approved")]),
      reply.toolCalls([terminal("touch /tmp/refused")]),
      finish("Done."),
    ]);
    const { id } = await startConversation(server.call, "Work");
    await waitForEnd(id, "waiting_for_confirmation");
    expect((await events(id)).some(({ kind }) => kind === "ObservationEvent")).toBe(false);
    const path = `/api/conversations/${id}/events/respond_to_confirmation`;
    await server.call("POST", path, { accept: true });
    await until(async () =>
      (await events(id)).filter(({ kind }) => kind === "ActionEvent").length === 2 ? true : undefined,
    );
    await waitForEnd(id, "waiting_for_confirmation");
    await server.call("POST", path, { accept: false, reason: "Not that." });
    await waitForEnd(id, "idle");
    expect((await events(id)).at(-1)).toMatchObject({
      kind: "UserRejectObservation",
      rejection_reason: "Not that.",
    });
  } finally {
    await server.call("POST", "/api/settings", { confirmation_mode: false });
  }
});

test("a deletion whose sandbox could not be removed can be repeated, and leaves no sandbox behind", async () => {
  await useModel([reply.text("Hello.")]);
  const { id, sandboxId } = await startConversation(server.call, "Hello");
  await waitForEnd(id);
  const removal = vi
    .spyOn(server.platform.sandboxes, "remove")
    .mockRejectedValueOnce(new Error("the runtime failed"));
  expect((await server.call("DELETE", `/api/v1/app-conversations/${id}`)).status).toBe(500);
  removal.mockRestore();
  expect(await server.call("DELETE", `/api/v1/app-conversations/${id}`)).toMatchObject({ status: 200 });
  expect((await server.call("GET", `/api/v1/sandboxes?id=${sandboxId}`)).body).toEqual([null]);
  expect(await conversation(id)).toBeNull();
});

test("deleting a conversation ends its run and removes its sandbox", async () => {
  await useModel([reply.toolCalls([terminal("sleep 100")])]);
  const { id, sandboxId } = await startConversation(server.call, "Sleep");
  await until(async () => (await events(id)).some(({ kind }) => kind === "ActionEvent") || undefined);
  expect((await server.call("DELETE", `/api/v1/app-conversations/${id}`)).status).toBe(200);
  expect((await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body).toEqual([null]);
  expect((await server.call("GET", `/api/v1/sandboxes?id=${sandboxId}`)).body).toEqual([null]);
  expect((await server.call("GET", `/api/v1/conversation/${id}/events/search`)).status).toBe(404);
});
