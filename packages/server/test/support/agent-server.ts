import { caller, type Json, type TestPlatform, until } from "./platform.ts";

/** A running sandbox as clients of the agent server see it. */
export interface AgentServer {
  sandboxId: string;
  /** Its address, without a trailing slash. */
  url: string;
  key: string;
  /** A JSON request below its address with its session key. */
  call: TestPlatform["call"];
}

/** Starts a sandbox and waits for its agent server (remote-clients.md section 9). */
export async function startAgentServer(platform: Pick<TestPlatform, "call">): Promise<AgentServer> {
  const { body: started } = await platform.call("POST", "/api/v1/sandboxes");
  const info = await until(async () => {
    const { body } = await platform.call("GET", `/api/v1/sandboxes?id=${started.id}`);
    return body[0].status === "RUNNING" ? (body[0] as Json) : undefined;
  });
  const { url } = info.exposed_urls.find(({ name }: Json) => name === "AGENT_SERVER");
  const key = info.session_api_key;
  return { sandboxId: started.id, url, key, call: caller(url, key) };
}

/** The Python client's request for a conversation (remote-clients.md section 2). */
export function sdkRequest(modelUrl: string, change: Json = {}): Json {
  return {
    agent: {
      kind: "Agent",
      llm: {
        model: "openai/scripted",
        api_key: "sk-own-model-key",
        base_url: modelUrl,
        usage_id: "agent",
        num_retries: 5,
      },
      tools: [
        { name: "terminal", params: {} },
        { name: "file_editor", params: {} },
      ],
      mcp_config: {},
      filter_tools_regex: null,
      include_default_tools: ["FinishTool", "ThinkTool"],
      agent_context: null,
      system_prompt_filename: "system_prompt.j2",
      system_prompt_kwargs: { llm_security_analyzer: true },
      condenser: null,
      critic: null,
    },
    initial_message: null,
    max_iterations: 500,
    stuck_detection: true,
    stuck_detection_thresholds: { monologue: 3 },
    workspace: { working_dir: "/workspace/project", kind: "LocalWorkspace" },
    tool_module_qualnames: { terminal: "openhands.tools.terminal.definition" },
    agent_definitions: [],
    plugins: null,
    hook_config: null,
    client_tools: [],
    tags: {},
    observability_metadata: {},
    observability_tags: [],
    observability_span_name: "conversation",
    user_id: null,
    ...change,
  };
}
