import type { Follower } from "../sockets/follower.ts";
import type { Json } from "../support/platform.ts";

/** A sandbox as its clients know it. */
export interface AnnouncedSandbox {
  id: string;
  key: string;
  /** It was asked to be deleted; true: that was answered. */
  deleted: boolean | undefined;
  readonly conversations: AnnouncedConversation[];
  /** Ids of commands that were started, and the output of commands whose end was announced. */
  readonly commands: Map<string, string | undefined>;
  /** Uploaded files, by path. */
  readonly files: Map<string, string>;
  snapshots: number;
}

/** A field that one client at a time changes: its confirmed value, or values that may be stored. */
export class AnnouncedField {
  possible: unknown[];

  constructor(first: unknown) {
    this.possible = [first];
  }

  /** `change` returns true on success; if it throws, the change may have been made. */
  async set(value: unknown, change: () => Promise<boolean>): Promise<void> {
    const before = this.possible;
    this.possible = [...before, value];
    this.possible = (await change()) ? [value] : before;
  }
}

/** A conversation as its clients know it. */
export interface AnnouncedConversation {
  id: string;
  sandbox: AnnouncedSandbox;
  /** False as long as no answer came: it may be there. */
  created: boolean;
  /** The initial message. */
  first: string | undefined;
  /** Texts that were announced, by sender, in order. */
  readonly sent: Map<string, string[]>;
  forkOf: AnnouncedConversation | undefined;
  /** The events up to the fork's point, as the source had them; set when the fork named a point. */
  forkFrom: string | undefined;
  deleted: boolean | undefined;
  /** A client moved HEAD. */
  moved: boolean;
  readonly fields: Record<"title" | "tags" | "policy" | "model", AnnouncedField>;
  readonly secrets: Set<string>;
  /** Goals by objective: rounds that were allowed. */
  readonly goals: Map<string, { rounds: number; resumed: number; announced: boolean }>;
  /** The last thing that was answered about goals. */
  goalStopped: boolean;
  busy: boolean;
  readonly followers: { follower: Follower; prefix: string }[];
}

export function newConversation(
  box: AnnouncedSandbox,
  id: string,
  change: Partial<AnnouncedConversation> = {},
): AnnouncedConversation {
  const fields = {
    title: new AnnouncedField(undefined),
    tags: new AnnouncedField({}),
    policy: new AnnouncedField("NeverConfirm"),
    model: new AnnouncedField("openai/scripted"),
  };
  return {
    ...{
      id,
      sandbox: box,
      created: false,
      first: undefined,
      sent: new Map(),
      forkOf: undefined,
      forkFrom: undefined,
      deleted: undefined,
    },
    ...{
      moved: false,
      fields,
      secrets: new Set(),
      goals: new Map(),
      goalStopped: false,
      busy: false,
      followers: [],
    },
    ...change,
  };
}

export interface AgentLoadState {
  /** Changes with every start of the server. */
  target: { url: string };
  userKey: string;
  modelUrl: string;
  readonly sandboxes: AnnouncedSandbox[];
  /** Answers that no request should get. */
  readonly unexpected: string[];
  /** Number of responses, by request and status. */
  readonly responses: Map<string, number>;
  /** Ids of events that the operator's webhook got, by conversation. */
  readonly reported: Map<string, string[]>;
  signal: AbortSignal;
}

export type Answer = { status: number; body: any };

/** A request that counts. Throws where the server is away. */
export async function ask(
  state: AgentLoadState,
  box: AnnouncedSandbox | undefined,
  method: string,
  path: string,
  body?: unknown,
): Promise<Answer> {
  // Clients use the address below the sandbox, or drop it.
  const base = box && Math.random() < 0.5 ? `${state.target.url}/agent/${box.id}` : state.target.url;
  const form = body instanceof FormData;
  const response = await fetch(`${base}${path}`, {
    method,
    headers: {
      "x-session-api-key": box?.key ?? state.userKey,
      ...(body !== undefined && !form && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: form ? body : JSON.stringify(body) }),
    signal: AbortSignal.any([state.signal, AbortSignal.timeout(30_000)]),
  });
  const text = await response.text();
  const what = `${method} ${path.replace(/[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f-]{18,22}|sbx-\w+/g, ":id").replace(/\?.*/, "")}`;
  // A sandbox may be deleted under any of it, and a snapshot ends what runs in it.
  const anew = box && box.snapshots > 0 && /has been restarted|may be stopping/.test(text);
  const isGone = response.status === 503 && (box?.deleted !== undefined || anew);
  const isCutOff = response.status === 502 && text.includes("The summary was interrupted");
  if (
    (response.status >= 500 && !isGone && !isCutOff) ||
    response.status === 422 ||
    (form && response.status === 400)
  )
    state.unexpected.push(`${what}: ${response.status} ${text.slice(0, 300)}`);
  const key = `${what} ${response.status}`;
  state.responses.set(key, (state.responses.get(key) ?? 0) + 1);
  return { status: response.status, body: /^[[{]/.test(text) ? (JSON.parse(text) as Json) : text };
}
