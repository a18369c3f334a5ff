import type { Gate } from "@sandpiper/core/test/support/gate";
import { Command } from "../../support/command.ts";
import type { TestPlatform } from "../../support/platform.ts";
import { otherModel } from "../every-append/task.ts";
import type { Worker } from "./state.ts";

export interface Preparation {
  /** Variables of the command line. */
  env: Record<string, string>;
  /** Requests of a user. */
  call(user: Worker): TestPlatform["call"];
  gates: Record<"models" | "mcp", Pick<Gate, "url">>;
}

/** Makes a user with the settings of their task. */
export async function prepareWorker(user: Worker, { env, call: callAs, gates }: Preparation): Promise<void> {
  const command = new Command(["keys", "create", "--user", user.name], env);
  if ((await command.exit) !== 0) throw new Error(command.stderr);
  user.key = command.stdout.trim();
  const call = callAs(user);
  const apiKey = `sk-${user.key}`;
  const done = async (path: string, body: unknown) => {
    const answer = await call("POST", path, body);
    if (answer.status >= 300) throw new Error(JSON.stringify(answer));
  };
  const { task } = user;
  await done("/api/settings", {
    ...{ llm_model: "openai/gpt-4o-mini", llm_api_key: apiKey, llm_base_url: gates.models.url },
    ...task.legacySettings,
  });
  // An endpoint that is away for seconds is waited for.
  const llm = { num_retries: 30, retry_min_wait: 1, retry_max_wait: 2, retry_multiplier: 1 };
  const profile = { model: otherModel, api_key: apiKey, base_url: gates.models.url, ...llm };
  await done("/api/v1/settings/profiles/other", { llm: profile });
  const settings = task.settings({ mcpUrl: `${gates.mcp.url}/mcp`, modelUrl: gates.models.url });
  await done("/api/v1/settings", { agent_settings_diff: { ...settings, llm } });
}
