import type { Deliberate } from "./differences.ts";

const extension = "an addition; clients that do not know it are not hindered";
const hosted = "organizations and roles are the hosted service's";
const moreProviders = "the server knows these providers in V1, and V0 shows the same conversations";
const securityScheme = "a key, not a parameter: the document tells it as a security scheme";
const userOnly =
  "a client may speak for the user only; who could write as the agent could make it believe anything";
const inCode = "in the reference's code, not in its document (agent-server.md section 9)";
const openEffort = "endpoints have further efforts (minimal, max); what is given goes along as it is";
const newer = "newer than the reference's document (agent-server.md section 3)";
const scoped = "newer than the reference's document (agent-server-1.49.md sections 2 and 3)";
const measured = "newer than the reference's document (agent-server-1.58.md sections 3 and 4)";
const draft = "newer servers take a draft here (agent-server-1.58.md section 5.2)";
const openState =
  "the whole state is sent, as the fold has it; the schema names what clients rely on and leaves the rest open";

/** Intended differences from the reference's app server; stale entries fail the test. */
export const appServer: readonly Deliberate[] = [
  [
    "POST /api/v1/settings/profiles/{name}: body llm.provider_connection_id: ours alone",
    "newer clients send it with every profile, as null",
  ],
  ["* /api/agent-profiles*: query org_id: missing", hosted],
  ["POST /api/agent-profiles/{name}/materialize: body *: ours alone", draft],
  [
    "POST /api/agent-profiles/{name}/materialize: answer secret_refs: ours alone",
    "newer than the app server's document (agent-server-1.58.md section 5.2)",
  ],
  [
    "GET /api/v1/sandboxes/{sandbox_id}/settings/secrets: query agent_profile_id: ours alone",
    "the Python SDK of 1.49 and later sends it (agent-server-1.58.md section 1.1)",
  ],
  ["GET /api/v1/users/me: answer org_*: missing", hosted],
  ["GET /api/v1/users/me: answer permissions: missing", hosted],
  ["GET /api/v1/users/me: answer role: missing", hosted],
  ["GET /api/v1/users/me: header x-session-api-key: missing", securityScheme],
  ["GET /api/v1/users/me: answer *: ours alone", "flat aliases, which the released Python client reads"],
  [
    "GET /api/v1/webhooks/secrets: header x-access-token: ours alone",
    "the reference tells it as a security scheme",
  ],
  [
    "GET /api/v1/app-conversations: query ids: not required",
    "without ids it lists, as platform.md section 4.2 says",
  ],
  [
    "GET /api/v1/app-conversations: query *: ours alone",
    "without ids it lists, and takes what a search takes",
  ],
  ["GET /api/v1/app-conversations: answer *: ours alone", "without ids it lists, and answers with a page"],
  [
    "POST /api/v1/app-conversations*: body initial_message.content: required",
    "a message without content says nothing",
  ],
  ["* /api/v1/app-conversations*: *initial_message.role: without assistant system tool", userOnly],
  ["* /api/v1/app-conversations*: *initial_message.sender: ours alone", extension],
  ["* /api/v1/app-conversations*: *network: ours alone", extension],
  ["* /api/v1/app-conversations*: *sandbox_spec_id: ours alone", extension],
  ["* /api/v1/app-conversations*: *max_budget_per_task: ours alone", extension],
  ["* /api/v1/app-conversations*: *tags: ours alone", extension],
  ["POST /api/v1/app-conversations/{conversation_id}/send-message: body message_id: ours alone", extension],
  ["*task_type: also CREATE_MICROAGENT", "V0 clients send it"],
  [
    "POST /api/v1/conversations/{conversation_id}/pending-messages: body *: ours alone",
    "the reference reads the body without telling it",
  ],
  ["POST /api/v1/sandboxes: query snapshot_id: ours alone", extension],
  ["POST /api/v1/sandboxes: body network: ours alone", extension],
  ["POST /api/v1/sandboxes: body working_dir: ours alone", extension],
  ["POST /api/v1/sandboxes: body allow: ours alone", extension],
  ["POST /api/v1/sandboxes: body env: ours alone", extension],
  [
    "DELETE /api/v1/sandboxes/{id}: query sandbox_id: not required",
    "the path's id is taken where the query has none",
  ],
  [
    "DELETE /api/v1/sandboxes/{id}: path sandbox_id: ours alone",
    "the path's id is taken where the query has none",
  ],
  ["*body hosts: ours alone", extension],
  ["POST /api/v1/secrets: body headers: ours alone", extension],
  ["PUT /api/v1/secrets/{secret_id}: body headers: ours alone", extension],
  ["POST /api/v1/secrets: body plain: ours alone", extension],
  ["PUT /api/v1/secrets/{secret_id}: body plain: ours alone", extension],
  ["GET /api/v1/secrets/search: answer items[].plain: ours alone", extension],
  ["GET /api/v1/secrets/search: answer items[].hosts: ours alone", extension],
  ["GET /api/v1/secrets/search: answer items[].headers: ours alone", extension],
  [
    "POST /api/v1/secrets/git-providers: body mcp_config.*",
    "the three lists of V0; the map of V1 belongs to the settings",
  ],
  [
    "POST /api/v1/settings/profiles/{name}: body llm.fallback_strategy.profile_store_dir: missing",
    "a path of the server is no client's to name",
  ],
  ["POST /api/v1/webhooks/conversations: body agent: not required", "only the model's name is read of it"],
  ["POST /api/v1/webhooks/conversations: body *: missing", "accepted and not read"],
];

/** The same for the V0 reads and settings. */
export const legacyV0: readonly Deliberate[] = [
  [
    "POST /api/conversations/{conversation_id}/upload-files: answer *: missing",
    "the route is gone, answers 410 and names the one that takes files",
  ],
  [
    "GET /api/conversations: answer results[].*: ours alone",
    "fields that the released GUI reads (legacy-gui.md section 4.3)",
  ],
  [
    "GET /api/user/repository/branches: *",
    "the released GUI asks for a page and reads one (legacy-gui.md section 8)",
  ],
  ["*git_provider: also azure_devops bitbucket_data_center forgejo", moreProviders],
  ["*provider: also azure_devops bitbucket_data_center forgejo", moreProviders],
  ["*trigger: also automation bitbucket", "triggers of V1, whose conversations V0 shows"],
  ["*status: also ARCHIVED ERROR", "states that the released GUI knows"],
  ["*runtime_status: without *", "states of a runtime that this platform does not have"],
  [
    "GET /api/conversations: query ids: ours alone",
    "with ids it is the agent server's batch (legacy-gui.md section 7.4)",
  ],
  [
    "GET /api/conversations: answer [].*: ours alone",
    "with ids it is the agent server's batch (legacy-gui.md section 7.4)",
  ],
  [
    "GET /api/conversations/{conversation_id}: answer *: ours alone",
    "one object for V0 and for the agent server's clients (legacy-gui.md section 7.4)",
  ],
  [
    "GET /api/conversations/{conversation_id}: query include_skills: ours alone",
    "one path for V0 and for the agent server's clients",
  ],
  ["GET /api/conversations/{conversation_id}/events: body *: missing", "a GET has no body"],
  [
    "GET /api/conversations/{conversation_id}/remember-prompt: query event_id: missing",
    "the route is gone for V1 conversations and answers 410",
  ],
  [
    "POST /api/conversations/{conversation_id}/events: body *: ours alone",
    "the agent server's message; the reference takes anything",
  ],
  ["GET /api/settings: answer *: ours alone", "fields that newer clients read (app-server.md section 5)"],
  ["POST /api/settings: body *: ours alone", "fields that newer clients send (app-server.md section 5)"],
  ["POST /api/settings: body secrets_store: missing", "read-only; what clients send back is ignored"],
  [
    "POST /api/conversations/{conversation_id}/start: body providers_set: missing",
    "accepted and not read: the server knows the user's providers",
  ],
  ["POST /api/conversations: body *: ours alone", "one path for V0 and for the agent server's clients"],
  ["POST /api/conversations: body mcp_config: missing", "MCP servers come from the settings"],
];

/** The same for the part of the agent server's surface that the server answers itself. */
export const agentServer: readonly Deliberate[] = [
  ["POST /api/conversations/{conversation_id}/generate_title: body llm.reasoning_*: an open set", openEffort],
  ["*/api/conversations: *: ours alone", "one path for V0 and for the agent server's clients"],
  [
    "*/api/conversations/{conversation_id}*: *: ours alone",
    "one path for V0 and for the agent server's clients",
  ],
  ["GET /api/conversations: query ids: not required", "without ids it is the V0 list"],
  ["GET /api/conversations/search: query include_skills: ours alone", newer],
  ["GET /api/conversations/search: answer items[].*: ours alone", newer],
  [
    "GET /api/conversations/{conversation_id}: answer *: not required",
    "left out until the start has made the conversation",
  ],
  ["*/api/conversations*: answer *: missing", openState],
  [
    "POST /api/conversations: body *: missing",
    "accepted and not read: agent, tools and workspace are the server's",
  ],
  ["POST /api/conversations: body *: not required", "agent and workspace are the server's"],
  [
    "GET /api/conversations/{conversation_id}/events/*: query source: a closed set",
    "no event has another source",
  ],
  ["GET /api/git/*: query *: ours alone", extension],
  ["* /api/bash/*: query *: ours alone", extension],
  ["* /api/file/*/{path}: query sandbox_id: ours alone", extension],
  ["POST /api/file/upload/{path}: answer file_size: ours alone", measured],
  ["GET /server_info: answer *: ours alone", extension],
  ["POST /api/hooks: query sandbox_id: ours alone", extension],
  ["POST /api/skills: query sandbox_id: ours alone", extension],
  [
    "POST /api/skills: body *: missing",
    "accepted and not read: there are no organizations, and the server knows the sandbox",
  ],
  [
    "POST /api/skills: answer skills[].disable_model_invocation: ours alone",
    "in the reference's code, not in its document",
  ],
  [
    "POST /api/conversations/{conversation_id}/events: body content: required",
    "a message without content says nothing",
  ],
  ["POST /api/conversations/{conversation_id}/events: body role: without assistant system tool", userOnly],
  [
    "POST /api/conversations/{conversation_id}/generate_title: body llm.*: missing",
    "accepted: clients of all versions send sixty fields",
  ],
  [
    "POST /api/conversations/{conversation_id}/generate_title: body llm.model: required",
    "a model without a name is none",
  ],
];

/** Additional differences of the agent-server document. */
export const agentServerInside: readonly Deliberate[] = [
  ["POST /api/conversations: body agent.llm.reasoning_*: an open set", openEffort],
  ["GET /: answer *: ours alone", "in the reference's code, not in its document (agent-server.md section 2)"],
  [
    "PATCH /api/conversations/{conversation_id}: body title: not required",
    "newer clients change tags alone (agent-server.md section 3)",
  ],
  [
    "POST /api/conversations: body agent.kind: an open set",
    "an agent without a kind is of kind Agent; others are refused with a sentence",
  ],
  ["POST /api/conversations: body agent.llm.model: required", "no model is called that nobody named"],
  [
    "POST /api/conversations: body initial_message.content: required",
    "a message without content says nothing",
  ],
  ["POST /api/conversations: body initial_message.role: without assistant system tool", userOnly],
];

/** Routes that the reference's documents do not have. */
export const additions: readonly Deliberate[] = [
  ["* /api/llm/*", inCode],
  ["POST /api/mcp/*", inCode],
  ["GET /api/tools/catalog", measured],
  ["POST /api/acp/models", measured],
  ["POST /api/plugins/fetch", measured],
  ["GET /api/git/repositories/search", measured],
  ["POST /api/conversations/{conversation_id}/children", measured],
  ["GET /api/skills/*", inCode],
  ["* /api/plugins*", inCode],
  ["POST /api/sub-agents", inCode],
  ["GET /api/meta-profiles", "the released TypeScript client asks"],
  ["* /api/workspaces*", inCode],
  [
    "* /v1/*",
    "agents as models of OpenAI's API: in the reference's code, not in its document (agent-server.md section 9)",
  ],
  ["* /api/keys*", "keys of users, for the web login"],
  ["* /log*", "the web login"],
  [
    "* /api/organizations*",
    "the released GUI of the hosted service wants one before it lets LLM profiles be changed",
  ],
  [
    "POST /api/cloud-proxy",
    "the released GUI of the hosted service reaches agent servers so (remote-clients.md section 10)",
  ],
  [
    "POST /api/v1/settings/mcp/{key}/test",
    "in the reference's code, not in its document (app-server.md section 1)",
  ],
  ["GET /api/user/search/branches", "the released GUI asks (legacy-gui.md section 8)"],
  ["* /api/v1/sandboxes/{sandbox_id}/archive", extension],
  ["* /api/v1/sandboxes/{sandbox_id}/files*", extension],
  ["GET /api/v1/sandboxes/{sandbox_id}/network*", extension],
  ["GET /api/v1/sandboxes/{sandbox_id}/preview", extension],
  ["* /api/v1/*snapshots*", extension],
  ["* /api/v1/behaviours*", extension],
  ["POST /api/v1/sandboxes/{sandbox_id}/behaviour", extension],
  ["* /behaviours/{digest}", "the page for people whose client does not know acceptances"],
  ["POST /api/v1/webhooks/secrets", "makes the token that the reference's server makes by itself"],
  ["GET /api/v1/events*", "the paths of older clients (app-server.md section 9)"],
  ["GET /api/microagent-management/conversations", "the released GUI asks (legacy-gui.md section 8)"],
  ["GET /api/conversations/{conversation_id}/web-hosts", "the released GUI asks (legacy-gui.md section 8)"],
  ["GET /api/conversations/{conversation_id}/vscode-url", "the released GUI asks (legacy-gui.md section 8)"],
  ["GET /api/git/*", "the path in the query, as newer clients send it"],
  ["* /api/file/*", "newer than the reference's document (agent-server.md section 8)"],
  ["* /api/auth/workspace-session", "newer than the reference's document (agent-server.md section 9)"],
  ["GET /api/conversations/{conversation_id}/agent_final_response", newer],
  ["POST /api/conversations/{conversation_id}/load_plugin", newer],
  ["POST /api/conversations/{conversation_id}/switch_*", newer],
  ["POST /api/conversations/{conversation_id}/goal*", newer],
  ["POST /api/bash/bash_commands/{command_id}/stop", newer],
  ["* /api/conversations/{conversation_id}/bash/*", scoped],
  ["* /api/conversations/{conversation_id}/file/*", scoped],
  ["GET /api/conversations/{conversation_id}/git/commits*", scoped],
  ["GET /api/conversations/{conversation_id}/vscode/*", scoped],
  ["* /api/conversations/{conversation_id}/runtime*", scoped],
  ["POST /api/conversations/{conversation_id}/fork", newer],
  ["POST /api/conversations/{conversation_id}/navigate", newer],
  ["GET /api/conversations/{conversation_id}/workspace*", newer],
  ["* /api/v1/app-conversations/{conversation_id}/callbacks*", extension],
  ["GET /api/v1/app-conversations/{conversation_id}/log", extension],
  ["GET /api/v1/app-conversations/{conversation_id}/recording", extension],
  ["GET /api/v1/app-conversations/model-check", extension],
  ["POST /api/v1/app-conversations/model-check", extension],
  ["GET /api/v1/app-conversations/{conversation_id}/files", "the released GUI of the hosted service asks"],
  [
    "POST /api/conversations/{conversation_id}/interrupt",
    "in the reference's code, not in its document (agent-server.md section 4)",
  ],
];
