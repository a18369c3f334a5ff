import { startAgentServer } from "../../support/agent-server.ts";
import type { Json, TestPlatform } from "../../support/platform.ts";
import type { Task } from "./task.ts";

/**
 * The request that starts a conversation with the task, in a sandbox with its files. Throws when
 * the server dies meanwhile.
 */
export async function createRequest(
  server: Pick<TestPlatform, "call">,
  id: string,
  { files = {} }: Task,
): Promise<Json> {
  const request: Json = {
    conversation_id: id,
    initial_message: { content: [{ type: "text", text: `Do the work. ${id}` }] },
  };
  if (Object.keys(files).length === 0) return request;
  const box = await startAgentServer(server);
  const command = Object.entries(files)
    .map(([path, text]) => `mkdir -p "$(dirname ${path})" && cat > ${path} <<'END'\n${text}\nEND`)
    .join("\n");
  const { body } = await box.call("POST", "/api/bash/execute_bash_command", { command, cwd: "/workspace" });
  if (body.exit_code !== 0) throw new Error(JSON.stringify(body));
  return { ...request, sandbox_id: box.sandboxId };
}
