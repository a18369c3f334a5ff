import { newId } from "@sandpiper/wire";
import type { Json } from "../support/platform.ts";

/** Where the load goes to: changes with every start of the server. */
export interface Target {
  url: string;
}

/** The announcements of a server, which must hold after every kill. */
export class AnnouncedState {
  /** Start tasks, with the texts of what their users say, in order, and where events go. */
  readonly tasks = new Map<string, { user: User; said: string[]; callback: string | undefined }>();
  readonly deleted = new Set<string>();
  readonly users = new Map<string, User>();
  readonly counters = new Map<string, number>();
  readonly secrets = new Map<string, Set<string>>();
  readonly reported = new Map<string, { user: User; events: string[] }>();
  readonly snapshots = new Map<string, User>();
  readonly files = new Map<string, { user: User; path: string; text: string }>();
  /** Answers that no request should get. */
  readonly unexpected: string[] = [];
}

export interface User {
  name: string;
  key: string;
}

export interface LoadOptions {
  target: Target;
  users: readonly User[];
  /** Base address of callbacks; each conversation gets a path of its own. */
  endpoint: string;
  repository: string;
  announced: AnnouncedState;
  signal: AbortSignal;
}

const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)]!;
const chance = (share: number) => Math.random() < share;
let counter = 0;

/**
 * Users that send every kind of request concurrently until the signal, also while no server runs.
 */
export async function runLoad(options: LoadOptions): Promise<void> {
  const { users, signal } = options;
  const actors = [
    startConversation,
    startConversation,
    deleteParent,
    changeSettings,
    addSecret,
    reportEvents,
    uploadFile,
    takeSnapshot,
    readConversations,
  ];
  const go = async (actor: (o: LoadOptions, user: User) => Promise<void>, user: User) => {
    while (!signal.aborted) {
      await actor(options, user).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 60));
    }
  };
  await Promise.all(users.flatMap((user) => actors.map((actor) => go(actor, user))));
}

async function call(
  o: LoadOptions,
  user: User,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; body: any }> {
  const raw = body instanceof Uint8Array;
  const response = await fetch(`${o.target.url}${path}`, {
    method,
    headers: {
      "x-session-api-key": user.key,
      ...(body !== undefined && { "content-type": raw ? "application/octet-stream" : "application/json" }),
    },
    ...(body !== undefined && { body: raw ? Buffer.from(body) : JSON.stringify(body) }),
    signal: AbortSignal.any([o.signal, AbortSignal.timeout(20_000)]),
  });
  const text = await response.text();
  // A snapshot ends what runs in a sandbox.
  const isAnew = response.status === 503 && /has been restarted|may be stopping/.test(text);
  if (response.status >= 500 && !isAnew)
    o.announced.unexpected.push(`${method} ${path}: ${response.status} ${text.slice(0, 200)}`);
  return {
    status: response.status,
    body: text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text,
  };
}

const toMessage = (text: string): Json => ({ content: [{ type: "text", text }] });

async function startConversation(o: LoadOptions, user: User): Promise<void> {
  const number = ++counter;
  const callback = chance(0.6) ? `/c${number}` : undefined;
  const first = chance(0.7) ? `first ${number}` : undefined;
  const request: Json = {
    title: `Number ${number}`,
    ...(first && { initial_message: toMessage(first) }),
    ...(chance(0.4) && { selected_repository: o.repository, git_provider: "github" }),
    ...(chance(0.5) && { secrets: { DEPLOY_TOKEN: `secret-value-${number}` } }),
    ...(callback && {
      processors: [
        { kind: "WebhookCallbackProcessor", url: `${o.endpoint}${callback}`, secret: "0123456789abcdef" },
      ],
    }),
  };
  const streams = chance(0.3);
  const answer = streams
    ? await stream(o, user, request)
    : await call(o, user, "POST", "/api/v1/app-conversations", request);
  if (answer.status !== 200) return;
  const id = answer.body.id as string;
  const task = { user, said: first ? [first] : [], callback };
  o.announced.tasks.set(id, task);
  for (let index = 0; index < 3 && chance(0.5); index++) {
    const text = `later ${number}.${index}`;
    const { status } = await call(
      o,
      user,
      "POST",
      `/api/v1/conversations/task-${id}/pending-messages`,
      toMessage(text),
    );
    if (status === 201) task.said.push(text);
  }
}

/** Reads only the first state: a client that stops reading does not stop the start. */
async function stream(o: LoadOptions, user: User, request: Json): Promise<{ status: number; body: any }> {
  const response = await fetch(`${o.target.url}/api/v1/app-conversations/stream-start`, {
    method: "POST",
    headers: { "x-session-api-key": user.key, "content-type": "application/json" },
    body: JSON.stringify(request),
    signal: AbortSignal.any([o.signal, AbortSignal.timeout(20_000)]),
  });
  if (response.status !== 200) return { status: response.status, body: undefined };
  let text = "";
  const decoder = new TextDecoder();
  const whole = chance(0.5);
  let found: Json | undefined;
  try {
    for await (const piece of response.body!) {
      text += decoder.decode(piece, { stream: true });
      const line = text.split("\n").find((one) => one.startsWith("{"));
      if (line && text.includes("}")) found ??= JSON.parse(line.replace(/,$/, ""));
      if (found && !whole) break;
    }
  } catch {}
  return { status: found ? 200 : 0, body: found };
}

async function deleteParent(o: LoadOptions, user: User): Promise<void> {
  const parent = newId().replaceAll("-", "");
  const child = newId().replaceAll("-", "");
  const first = await call(o, user, "POST", "/api/v1/app-conversations", {
    conversation_id: parent,
    secrets: { A_TOKEN: "cascade-secret" },
    processors: [{ kind: "LoggingCallbackProcessor" }],
    ...(chance(0.5) && { selected_repository: o.repository, git_provider: "github" }),
  });
  if (first.status !== 200) return;
  if (chance(0.5)) await call(o, user, "PATCH", `/api/v1/app-conversations/${parent}`, { title: "Renamed" });
  await new Promise((resolve) => setTimeout(resolve, Math.random() * 600));
  await call(o, user, "POST", "/api/v1/app-conversations", {
    conversation_id: child,
    parent_conversation_id: parent,
    initial_message: toMessage("child"),
    secrets: { B_TOKEN: "cascade-secret" },
  });
  await new Promise((resolve) => setTimeout(resolve, Math.random() * 400));
  const { status } = await call(o, user, "DELETE", `/api/v1/app-conversations/${parent}`);
  if (status === 200) o.announced.deleted.add(parent);
}

async function changeSettings(o: LoadOptions, user: User): Promise<void> {
  const value = ++counter;
  const { status } = await call(o, user, "POST", "/api/settings", { max_iterations: 500 + value });
  if (status === 200) o.announced.counters.set(user.name, value);
  await call(o, user, "POST", `/api/v1/settings/profiles/p${value % 20}`, {
    llm: { model: "openai/gpt-4o-mini" },
  });
}

async function addSecret(o: LoadOptions, user: User): Promise<void> {
  const name = `S${++counter}`;
  const { status } = await call(o, user, "POST", "/api/v1/secrets", {
    name,
    value: `value-of-${name}`,
    description: "",
  });
  const known = o.announced.secrets.get(user.name) ?? new Set();
  if (status === 201 || status === 200) o.announced.secrets.set(user.name, known.add(name));
  if (known.size > 40) {
    const [old] = known;
    known.delete(old!);
    await call(o, user, "DELETE", `/api/v1/secrets/${old}`);
  }
}

async function pickSandbox(o: LoadOptions, user: User): Promise<Json | undefined> {
  const { body } = await call(o, user, "GET", "/api/v1/sandboxes/search?limit=50");
  return pick((body.items as Json[]).filter(({ status }) => status === "RUNNING"));
}

async function reportEvents(o: LoadOptions, user: User): Promise<void> {
  const sandbox = await pickSandbox(o, user);
  if (!sandbox?.session_api_key) return;
  const agent = { name: "", key: sandbox.session_api_key };
  const id = newId();
  const made = await call(o, agent, "POST", "/api/v1/webhooks/conversations", {
    id,
    title: "Reported",
    execution_status: "idle",
  });
  if (made.status !== 200) return;
  const events: string[] = [];
  for (let index = 0; index < 3; index++) {
    const event = {
      id: newId(),
      kind: "MessageEvent",
      source: "user",
      llm_message: { role: "user", content: [{ type: "text", text: "hi" }] },
    };
    const { status } = await call(o, agent, "POST", `/api/v1/webhooks/events/${id}`, [event]);
    if (status === 200) events.push(event.id);
  }
  o.announced.reported.set(id, { user, events });
}

async function uploadFile(o: LoadOptions, user: User): Promise<void> {
  const sandbox = await pickSandbox(o, user);
  if (!sandbox) return;
  const path = `/tmp/file-${++counter}`;
  const text = `text of ${path}`.repeat(2000);
  const url = `/api/v1/sandboxes/${sandbox.id}/files?path=${path}`;
  const { status } = await call(o, user, "PUT", url, new TextEncoder().encode(text));
  if (status < 300) o.announced.files.set(`${sandbox.id} ${path}`, { user, path: url, text });
}

async function takeSnapshot(o: LoadOptions, user: User): Promise<void> {
  const sandbox = await pickSandbox(o, user);
  if (!sandbox) return;
  const { status, body } = await call(o, user, "POST", `/api/v1/sandboxes/${sandbox.id}/snapshots`);
  if (status >= 300) return;
  o.announced.snapshots.set(body.id, user);
  // Where conversations share sandboxes, one could have joined that sandbox when it is deleted.
  if (user.name !== "default") return;
  const started = await call(o, user, "POST", `/api/v1/sandboxes?snapshot_id=${body.id}`);
  if (started.status === 200 && chance(0.8))
    await call(o, user, "DELETE", `/api/v1/sandboxes/${started.body.id}?sandbox_id=${started.body.id}`);
  if (chance(0.7)) {
    o.announced.snapshots.delete(body.id);
    await call(o, user, "DELETE", `/api/v1/snapshots/${body.id}`);
  }
}

async function readConversations(o: LoadOptions, user: User): Promise<void> {
  const { body } = await call(o, user, "GET", "/api/v1/app-conversations/search?limit=100");
  const one = pick(body.items as Json[]);
  if (!one) return;
  await call(o, user, "GET", `/api/v1/app-conversations/${one.id}/download`);
  await call(o, user, "GET", `/api/v1/conversation/${one.id}/events/search?limit=100`);
  // Room for others: this test is about kills, not about many sandboxes.
  const own = body.items.filter(({ title }: Json) => /^Number/.test(title));
  for (const { id, execution_status } of own.slice(25)) {
    if (execution_status === "running") continue;
    const { status } = await call(o, user, "DELETE", `/api/v1/app-conversations/${id}`);
    if (status === 200) o.announced.deleted.add(id);
  }
}
