import { expect } from "vitest";
import { type Json, type startConversation, until } from "./platform.ts";

/** Accepts what a repository does by itself, which a first start with these fields finds. */
export async function acceptRepository(
  call: Parameters<typeof startConversation>[0],
  fields: Json,
): Promise<void> {
  const { body } = await call("POST", "/api/v1/app-conversations", fields);
  const sandboxId = await until(async () => {
    const [task] = (await call("GET", `/api/v1/app-conversations/start-tasks?ids=${body.id}`)).body;
    return ["READY", "ERROR"].includes(task.status) ? task.sandbox_id : undefined;
  });
  const found = (await call("GET", `/api/v1/behaviours?sandbox_id=${sandboxId}`)).body;
  expect(found).toHaveLength(1);
  expect((await call("PUT", `/api/v1/behaviours/${found[0].digest}/acceptance`)).status).toBe(200);
}
