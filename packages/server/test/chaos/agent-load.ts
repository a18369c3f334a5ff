import { randomUUID } from "node:crypto";
import { Follower, type Way } from "../sockets/follower.ts";
import { sdkRequest } from "../support/agent-server.ts";
import type { Json } from "../support/platform.ts";
import { TerminalClient } from "../support/terminal-client.ts";
import {
  type AgentLoadState,
  type AnnouncedConversation,
  type AnnouncedSandbox,
  ask,
  newConversation,
} from "./agent-announced.ts";

const pick = <T>(list: readonly T[]): T | undefined => list[Math.floor(Math.random() * list.length)];
const chance = (share: number) => Math.random() < share;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
let counter = 0;

const path = ({ id }: AnnouncedConversation, rest = "") => `/api/conversations/${id}${rest}`;
const message = (text: string, run: boolean) => ({ role: "user", content: [{ type: "text", text }], run });
/** The text of a message; some texts let the agent work in the sandbox. */
const newText = () =>
  chance(0.3) ? `run: sleep 0.${counter % 4}; echo worked # ${++counter}.` : `say ${++counter}.`;

/** Clients of the agent server that do everything at once until the signal. */
export async function runAgentLoad(state: AgentLoadState): Promise<void> {
  const actors = [
    ...[
      createConversation,
      sendMessages,
      sendMessages,
      controlRun,
      controlRun,
      answerConfirmations,
      forkConversation,
      moveHead,
      askSideQuestion,
      pursueGoal,
      changeConfiguration,
      deleteConversation,
    ],
    ...[uploadFile, runCommand, runCommand, typeInTerminal, takeSnapshot, addFollower],
  ];
  const go = async (
    actor: (state: AgentLoadState, box: AnnouncedSandbox) => Promise<unknown>,
    box: AnnouncedSandbox,
  ) => {
    while (!state.signal.aborted && box.deleted === undefined) {
      await actor(state, box).catch((error) => {
        // A snapshot ends what runs in a sandbox, and with it a download that has begun.
        const isCut = actor === uploadFile && box.snapshots > 0 && /terminated/.test(String(error));
        const isLost =
          error?.name !== "TimeoutError" && /fetch failed|terminated|aborted|Closed/.test(String(error));
        if (!state.signal.aborted && isLost && !isCut)
          state.unexpected.push(`${actor.name}: ${error?.stack ?? error}`);
      });
      await pause(20 + Math.random() * 150);
    }
  };
  const boxes = async () => {
    const running = new Map<AnnouncedSandbox, Promise<unknown>>();
    while (!state.signal.aborted) {
      for (const box of state.sandboxes)
        if (box.deleted === undefined && !running.has(box))
          running.set(box, Promise.all(actors.map((actor) => go(actor, box))));
      await replaceSandboxes(state).catch(() => {});
      await pause(200);
    }
    await Promise.all(running.values());
  };
  await boxes();
}

/** Sandboxes come and go under their clients. */
async function replaceSandboxes(state: AgentLoadState): Promise<void> {
  const alive = state.sandboxes.filter(({ deleted }) => deleted === undefined);
  if (alive.length < 3) await createSandbox(state);
  else if (chance(0.05)) {
    const box = pick(alive)!;
    box.deleted = false;
    const { status } = await ask(
      state,
      undefined,
      "DELETE",
      `/api/v1/sandboxes/${box.id}?sandbox_id=${box.id}`,
    );
    box.deleted = status === 200;
  }
}

export async function createSandbox(state: AgentLoadState): Promise<void> {
  const { status, body } = await ask(state, undefined, "POST", "/api/v1/sandboxes");
  if (status !== 200) return;
  for (;;) {
    const [info] = (await ask(state, undefined, "GET", `/api/v1/sandboxes?id=${body.id}`)).body as Json[];
    if (!info || info.status === "ERROR") return;
    if (info.status !== "RUNNING") {
      await pause(30);
      continue;
    }
    const rest = {
      deleted: undefined,
      conversations: [],
      commands: new Map(),
      files: new Map(),
      snapshots: 0,
    };
    state.sandboxes.push({ id: body.id, key: info.session_api_key, ...rest });
    return;
  }
}

/** Picks a conversation that is not deleted. */
const pickConversation = (box: AnnouncedSandbox) =>
  pick(box.conversations.filter(({ created: made, deleted }) => made && deleted === undefined));

async function createConversation(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  if (box.conversations.filter(({ deleted }) => deleted === undefined).length > 12) return;
  const first = chance(0.6) ? newText() : undefined;
  const one = newConversation(box, randomUUID(), { first });
  const policy = chance(0.3) ? "AlwaysConfirm" : "NeverConfirm";
  one.fields.policy.possible = [policy];
  const secret = chance(0.5) ? "MADE_WITH" : undefined;
  box.conversations.push(one);
  const request = sdkRequest(state.modelUrl, {
    conversation_id: one.id,
    autotitle: false,
    confirmation_policy: { kind: policy },
    ...(first && { initial_message: { ...message(first, true), run: undefined } }),
    ...(secret && { secrets: { [secret]: "value-of-chaos-0123456789" } }),
  });
  const { status } = await ask(state, box, "POST", "/api/conversations", request);
  if (status !== 201) return;
  one.created = true;
  if (secret) one.secrets.add(secret);
}

async function sendMessages(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const one = pickConversation(box);
  if (!one) return;
  const sender = `s${++counter}`;
  const said: string[] = [];
  one.sent.set(sender, said);
  for (let index = 0; index < 3; index++) {
    const text = newText();
    const { status } = await ask(state, box, "POST", path(one, "/events"), message(text, chance(0.7)));
    if (status === 200) said.push(text);
  }
}

async function controlRun(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const one = pickConversation(box);
  if (one) await ask(state, box, "POST", path(one, `/${pick(["run", "run", "pause", "interrupt"])}`));
}

async function answerConfirmations(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const { body } = await ask(state, box, "GET", "/api/conversations/search?status=waiting_for_confirmation");
  for (const { id } of body.items ?? [])
    await ask(state, box, "POST", `/api/conversations/${id}/events/respond_to_confirmation`, {
      accept: chance(0.6),
    });
}

async function pickEventId(state: AgentLoadState, one: AnnouncedConversation): Promise<string | undefined> {
  const { body } = await ask(state, one.sandbox, "GET", path(one, "/events/search?limit=100"));
  return pick((body.items ?? []) as Json[])?.id;
}

async function forkConversation(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const source = pickConversation(box);
  if (!source || box.conversations.filter(({ deleted }) => deleted === undefined).length > 20) return;
  const forkFrom = chance(0.7) ? await pickEventId(state, source) : undefined;
  const one = newConversation(box, randomUUID(), { forkOf: source, forkFrom, moved: source.moved });
  one.fields.policy.possible = [...source.fields.policy.possible, "NeverConfirm", "AlwaysConfirm"];
  one.fields.model.possible = [undefined];
  one.fields.tags.possible = [{ fork: one.id }];
  box.conversations.push(one);
  const request = { id: one.id, tags: { fork: one.id }, ...(forkFrom && { from_event_id: forkFrom }) };
  one.created = (await ask(state, box, "POST", path(source, "/fork"), request)).status === 201;
}

async function moveHead(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const one = pickConversation(box);
  if (!one || chance(0.5)) return;
  const to = chance(0.15) ? null : await pickEventId(state, one);
  if (to === undefined) return;
  one.moved = true;
  await ask(state, box, "POST", path(one, "/navigate"), { event_id: to });
}

async function askSideQuestion(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const one = pickConversation(box);
  if (!one) return;
  if (chance(0.5))
    await ask(state, box, "POST", path(one, "/ask_agent"), { question: `beside ${++counter}` });
  else await ask(state, box, "POST", path(one, "/condense"));
}

async function pursueGoal(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const one = pickConversation(box);
  if (!one || one.busy) return;
  one.busy = true;
  try {
    const rounds = 1 + (counter % 3);
    const objective = `goal ${++counter}.`;
    const goal = { rounds, resumed: 0, announced: false };
    one.goals.set(objective, goal);
    one.goalStopped = false;
    const { status } = await ask(state, box, "POST", path(one, "/goal"), {
      objective,
      max_iterations: rounds,
    });
    goal.announced = status === 200;
    await pause(Math.random() * 1_500);
    if (chance(0.6))
      one.goalStopped = (await ask(state, box, "POST", path(one, "/goal/stop"))).status === 200;
    if (!chance(0.5)) return;
    one.goalStopped = false;
    for (const other of one.goals.values()) other.resumed += 1;
    await ask(state, box, "POST", path(one, "/goal/resume"));
  } finally {
    // After a kill the last stored value is unknown.
    one.busy = false;
  }
}

async function changeConfiguration(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const one = pickConversation(box);
  if (!one) return;
  const value = `v${++counter}`;
  const does = (method: string, rest: string, body: unknown) => async () =>
    (await ask(state, box, method, path(one, rest), body)).status === 200;
  const { title, tags, policy, model } = one.fields;
  const kind = pick(["NeverConfirm", "NeverConfirm", "AlwaysConfirm"]);
  const llm = { model: `openai/${value}`, base_url: state.modelUrl, api_key: "sk-own", usage_id: "agent" };
  const changes = [
    () => title.set(value, does("PATCH", "", { title: value })),
    () => tags.set({ a: value }, does("PATCH", "", { tags: { a: value } })),
    () => policy.set(kind, does("POST", "/confirmation_policy", { policy: { kind } })),
    () => model.set(llm.model, does("POST", "/switch_llm", { llm })),
    async () => {
      if (await does("POST", "/secrets", { secrets: { [`N_${value}`]: "value-of-chaos-0123456789" } })())
        one.secrets.add(`N_${value}`);
    },
  ];
  await pick(changes)!();
}

async function deleteConversation(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const one = chance(0.15) ? pickConversation(box) : undefined;
  if (!one) return;
  one.deleted = false;
  one.deleted = (await ask(state, box, "DELETE", path(one))).status === 200;
}

async function uploadFile(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const name = `/tmp/up/file-${++counter}`;
  const text = `text of ${name}`.repeat(1 + (counter % 3_000));
  const form = new FormData();
  form.append("file", new Blob([text]), "file");
  const { status } = await ask(state, box, "POST", `/api/file/upload?path=${name}`, form);
  if (status === 200) box.files.set(name, text);
  const other = pick([...box.files.keys()]);
  if (other) await ask(state, box, "GET", `/api/file/download?path=${other}`);
}

async function runCommand(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const text = `printed ${++counter}`;
  if (chance(0.5)) {
    const { status, body } = await ask(state, box, "POST", "/api/bash/execute_bash_command", {
      command: `echo ${text}`,
    });
    if (status === 200 && body.exit_code === 0) box.commands.set(body.command_id, `${text}\n`);
    return;
  }
  const command = `echo begun; sleep ${Math.random().toFixed(2)}; echo ${text}`;
  const { status, body } = await ask(state, box, "POST", "/api/bash/start_bash_command", { command });
  if (status === 200) box.commands.set(body.id, undefined);
}

async function typeInTerminal(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const client = new TerminalClient({ url: state.target.url, key: box.key }, "/sockets/terminal");
  const end = () => client.socket.terminate();
  state.signal.addEventListener("abort", end);
  try {
    client.type(`echo typed $((${++counter} + 1))\r`);
    await client.shows(new RegExp(`typed ${counter}`)).catch(() => {});
    await pause(Math.random() * 500);
  } finally {
    state.signal.removeEventListener("abort", end);
    if (chance(0.5)) client.socket.terminate();
    else client.socket.close();
    await client.closed;
  }
}

async function takeSnapshot(state: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  if (!chance(0.1) || box.snapshots >= 4) return;
  box.snapshots += 1;
  await ask(state, undefined, "POST", `/api/v1/sandboxes/${box.id}/snapshots`);
}

/** Lets another client follow a conversation, from its beginning to the end of the state. */
async function addFollower(_: AgentLoadState, box: AnnouncedSandbox): Promise<void> {
  const one = pickConversation(box);
  if (!one || one.followers.length >= 3) return;
  const ways: Way[] = ["after_timestamp", "after_seq", "Last-Event-ID"];
  one.followers.push({
    follower: new Follower(one.id, ways[one.followers.length]!),
    prefix: chance(0.5) ? `/agent/${box.id}` : "",
  });
  await pause(200);
}

/** Has every follower come again whenever its connection has ended, until the signal. */
export async function keepFollowing(state: AgentLoadState): Promise<void> {
  const going = new Set<Follower>();
  const go = async (
    one: AnnouncedConversation,
    { follower, prefix }: AnnouncedConversation["followers"][number],
  ) => {
    const end = () => follower.end();
    state.signal.addEventListener("abort", end);
    while (!state.signal.aborted && !one.deleted && one.sandbox.deleted === undefined) {
      await follower.follow({ url: `${state.target.url}${prefix}`, key: one.sandbox.key }).ended;
      await pause(50 + Math.random() * 200);
    }
    state.signal.removeEventListener("abort", end);
  };
  const all: Promise<void>[] = [];
  while (!state.signal.aborted) {
    for (const one of state.sandboxes.flatMap(({ conversations }) => conversations))
      for (const entry of one.followers)
        if (!going.has(entry.follower)) {
          going.add(entry.follower);
          all.push(go(one, entry));
        }
    await pause(50);
  }
  await Promise.all(all);
}
