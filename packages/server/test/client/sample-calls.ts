import type { Client } from "@sandpiper/client";

type MethodsOf<Group> = {
  [Name in keyof Group as Group[Name] extends (...args: any[]) => unknown
    ? Name
    : never]: Group[Name] extends (...args: infer Args) => unknown ? Args : never;
};

/** All groups of methods that a client has. */
export type GroupName = Exclude<keyof Client, "connection" | "follow">;

const uuid = "0".repeat(32);
const page = { page_id: "p", limit: 1 };
const message = { content: [{ type: "text" as const, text: "hello" }] };
const times = { timestamp__gte: "2026-01-01T00:00:00Z", timestamp__lt: "2026-01-02T00:00:00Z" };
const filter = {
  title__contains: "t",
  created_at__gte: "2026-01-01T00:00:00Z",
  created_at__lt: "2026-01-02T00:00:00Z",
  updated_at__gte: "2026-01-01T00:00:00Z",
  updated_at__lt: "2026-01-02T00:00:00Z",
  sandbox_id__eq: "s",
};
const provider = "github" as const;

/** The arguments of a call of each method, with all parameters of its query. */
export const sampleCalls: { [Group in GroupName]: MethodsOf<Client[Group]> } = {
  account: { get: [], logIn: ["key"], logOut: [] },
  agentProfiles: {
    list: [],
    get: ["name"],
    save: ["name", { agent_kind: "openhands", llm_profile_ref: "m" }],
    delete: ["name"],
    rename: ["name", "other"],
    activate: ["id"],
    check: ["name", {}],
  },
  behaviours: {
    list: [{ sandbox_id: "s" }],
    get: ["a".repeat(64)],
    accept: ["a".repeat(64)],
    revoke: ["a".repeat(64)],
  },
  callbacks: {
    list: ["c"],
    add: ["c", { kind: "LoggingCallbackProcessor" }],
    retry: ["c", "b"],
    remove: ["c", "b"],
  },
  commands: {
    run: ["s", { command: "true", cwd: "/", timeout: 1 }],
    start: ["s", { command: "true" }],
    stop: ["s", "b"],
    list: [
      "s",
      {
        ...page,
        ...times,
        kind__eq: "BashOutput",
        command_id__eq: uuid,
        order__gt: 1,
        sort_order: "TIMESTAMP",
      },
    ],
    clear: ["s"],
  },
  conversations: {
    start: [{ initial_message: message }],
    create: [{ initial_message: message, title: "t", network: { mode: "none" } }],
    startTask: ["t"],
    listStartTasks: [
      {
        ...page,
        conversation_id__eq: uuid,
        created_at__gte: "2026-01-01T00:00:00Z",
        sort_order: "CREATED_AT",
      },
    ],
    list: [{ ...page, ...filter, include_sub_conversations: true }],
    count: [filter],
    get: ["c"],
    getMany: [["c", "d"]],
    info: ["c", { include_skills: true }],
    update: ["c", { title: "t" }],
    delete: ["c"],
    fork: ["c", { title: "t" }],
    startChild: ["c", { task: "t" }],
    checkModel: [{ llm_model: "m" }],
    recording: ["c"],
    download: ["c"],
  },
  events: {
    list: ["c", { ...page, ...times, kind__eq: "MessageEvent", sort_order: "TIMESTAMP_DESC" }],
    window: ["c", { first: 1, limit: 1, max_chars: 64 }],
    all: ["c"],
    count: ["c", { ...times, kind__eq: "MessageEvent" }],
    get: ["c", "e"],
    getMany: ["c", ["e", "f"]],
  },
  files: {
    list: ["s", { ...page, path: "/" }],
    read: ["s", "f"],
    readText: ["s", "f"],
    write: ["s", "f", "content"],
    remove: ["s", "f", { recursive: true }],
    pack: ["s", { path: "/", exclude: ["a", "b"], gzip: true, sparse: true }],
    unpack: ["s", new Uint8Array(2), { path: "/", sparse: true }],
  },
  git: {
    setTokens: [{ provider_tokens: { github: { token: "t" } } }],
    removeTokens: [],
    account: [],
    organizations: [],
    installations: [{ ...page, provider }],
    repositories: [{ ...page, provider, query: "q", installation_id: "i", sort_order: "updated-desc" }],
    branches: [{ ...page, provider, repository: "a/b", query: "q" }],
    suggestedTasks: [page],
  },
  keys: { list: [], create: [{ name: "n" }], delete: ["k"], current: [] },
  profiles: {
    list: [],
    get: ["p"],
    save: ["p", { llm: { model: "m" } }],
    delete: ["p"],
    activate: ["p"],
    rename: ["p", "q"],
  },
  project: {
    changes: ["c", "/", { ref: "main" }],
    diff: ["c", "f", { ref: "main" }],
    commits: ["c", "/", { limit: 1 }],
    commitChanges: ["c", "/", "abc"],
    files: ["c", { path: "/", after: "a" }],
    readFile: ["c", "f"],
    skills: ["c"],
    hooks: ["c"],
  },
  runs: {
    send: ["c", "hello"],
    add: ["c", { ...message, run: true }],
    queue: ["c", message],
    run: ["c"],
    pause: ["c"],
    interrupt: ["c"],
    respond: ["c", { accept: true, reason: "r" }],
    navigate: ["c", "e"],
    ask: ["c", "q"],
    finalResponse: ["c"],
    generateTitle: ["c", { max_length: 10 }],
    condense: ["c"],
    setGoal: ["c", { objective: "o" }],
    stopGoal: ["c"],
    resumeGoal: ["c"],
    switchModel: ["c", { llm: { model: "m" } }],
    switchProfile: ["c", "p"],
    setConfirmationPolicy: ["c", { policy: { kind: "AlwaysConfirm" } }],
    setSecurityAnalyzer: ["c", { security_analyzer: null }],
    addSecrets: ["c", { secrets: { NAME: "value" } }],
    loadPlugin: ["c", "a/b"],
  },
  sandboxes: {
    create: [{ sandbox_spec_id: "d", snapshot_id: "n", env: { A: "1" } }],
    start: [{ working_dir: "/work" }],
    list: [page],
    get: ["s"],
    pause: ["s"],
    resume: ["s"],
    delete: ["s"],
    preview: ["s", 80],
    network: ["s"],
    networkDecisions: ["s", page],
    secretNames: ["s", { agent_profile_id: "a" }],
    findBehaviour: ["s", { working_dir: "/" }],
  },
  secrets: {
    list: [{ ...page, name__contains: "n" }],
    create: [{ name: "N", value: "v" }],
    update: ["N", { name: "N" }],
    delete: ["N"],
  },
  server: { info: [], alive: [], webConfig: [], skills: [page], previewMarketplaces: [[]] },
  settings: {
    get: [],
    update: [{ language: "en" }],
    agentSchema: [],
    conversationSchema: [],
    testMcpServer: ["m"],
    models: [{ ...page, query: "q", verified__eq: true, provider__eq: "p" }],
    providers: [{ ...page, query: "q", verified__eq: true }],
  },
  snapshots: { create: ["s"], list: [page], get: ["n"], delete: ["n"] },
  specs: { list: [page], get: ["d"] },
};
