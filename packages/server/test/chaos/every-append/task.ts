import type { ScriptedToolCall } from "@sandpiper/models/test/support/model-answer";
import type { ModelRequestSeen, Reply } from "@sandpiper/models/test/support/model-server";
import { reply } from "@sandpiper/models/test/support/model-server";
import { editor, terminal } from "../../support/script.ts";
import type { UserActions } from "./log.ts";

/** The task of one model call; repeated under another id if the first call had no effect. */
export interface Work {
  call(id: string, results: ReadonlyMap<string, string>): ScriptedToolCall;
  /** Prints something if the work was done. Without it the server may repeat the tool. */
  trace?: string;
  /** Matches the result of a successful call; absent: any result. */
  says?: RegExp;
  /** The model that answers from then on. */
  model?: string;
}

/** Every call of a step is made in one answer; the next step follows when each has a result. */
export type Step = readonly Work[];

export const marks = "/workspace/marks";
export const notes = "/workspace/notes";

/** The model of the profile `other`. */
export const otherModel = "openai/gpt-4o";

/** Extra work that a participating user asks for. */
export const userWish = "Do also thirteen.";

/** The final message. */
export const allDone = /All is done/;

/** A command that records its id, so that a repeated command is noticed. */
export const mark = (work: string, more = ""): Work => ({
  call: (id) => terminal(`echo ${work} ${id} >> ${marks}; ${more}echo did ${work}`),
  trace: `grep '^${work} ' ${marks}`,
  says: new RegExp(`did ${work}`),
});

export const edit = (args: object, trace: string): Work => ({
  call: () => editor(args),
  trace,
  says: /Created|Edited/,
});
export const harmless = (name: string, args: object, says?: RegExp): Work => ({
  call: () => ({ name, arguments: args }),
  ...(says && { says }),
});

/** The work of a conversation and its environment. */
export interface Task {
  steps: readonly Step[];
  /** The steps of sub-agents, by their prompts. */
  parts: Readonly<Record<string, readonly Step[]>>;
  /** Additional steps, by the words of the message that asks for them. */
  asked?: Readonly<Record<string, readonly Step[]>>;
  /** Agent settings, where an MCP server of `mcpKey` and a model listen at these addresses. */
  settings: (at: { mcpUrl: string; modelUrl: string }) => Record<string, unknown>;
  /** Additional settings. */
  legacySettings?: Record<string, unknown>;
  /** Files below /workspace that exist at the start. */
  files?: Readonly<Record<string, string>>;
  /** Actions of a participating user. */
  userActions?: UserActions;
  /** The final result of the conversation. */
  expected: string;
}

/** A piece of work with every kind of tool that acts at once. */
const steps: readonly Step[] = [
  [mark("one")],
  [harmless("think", { thought: "What comes next?" })],
  [edit({ command: "create", path: notes, file_text: "first\nlast\n" }, `ls ${notes}`)],
  [
    mark("two"),
    edit({ command: "insert", path: notes, insert_line: 1, new_str: "between" }, `grep between ${notes}`),
    mark("three"),
  ],
  [harmless("task_tracker", { command: "plan", task_list: [{ title: "Work", status: "in_progress" }] })],
  [
    harmless("glob", { pattern: "**/notes", path: "/workspace" }, /notes/),
    harmless("grep", { pattern: "between", path: "/workspace" }, /notes/),
  ],
  [{ call: () => ({ name: "terminal", arguments: '{"command": "echo' }) }],
  [{ call: () => ({ name: "no_such_tool", arguments: {} }) }, mark("four")],
  [edit({ command: "str_replace", path: notes, old_str: "last", new_str: "end" }, `grep end ${notes}`)],
  [mark("five", "sleep 0.05; ")],
  [harmless("task_tracker", { command: "view" })],
  [mark("six"), mark("seven"), harmless("think", { thought: "Nearly." }), mark("eight")],
];

/** A sub-agent that runs its part. The call may be run again: it finds the sub-agent. */
export const part = (prompt: string): Work => ({
  call: () => ({ name: "task", arguments: { description: prompt, prompt } }),
  says: allDone,
});
const expected = (names: string) => `${names}\nfirst\nbetween\nend`;

const tools = ["terminal", "file_editor", "task_tracker", "glob", "grep"].map((name) => ({ name }));

/** Sequential calls. */
export const sequentialTask: Task = {
  steps,
  parts: {},
  settings: () => ({ tools }),
  expected: expected("eight,five,four,one,seven,six,three,two"),
};

/** Concurrent calls, including sub-agents, with hooks around each and repeated condensation. */
export const concurrentTask: Task = {
  steps: [
    ...steps.slice(0, 6),
    [part("Do nine."), mark("ten"), part("Do eleven.")],
    ...steps.slice(6),
    [part("Do twelve.")],
  ],
  parts: {
    "Do nine.": [[mark("nine")]],
    "Do eleven.": [[harmless("think", { thought: "A part." })], [mark("eleven", "sleep 0.1; ")]],
    "Do twelve.": [[mark("twelve")]],
  },
  settings: () => ({
    tools,
    enable_sub_agents: true,
    tool_concurrency_limit: 4,
    condenser: { max_size: 24 },
  }),
  files: {
    ".openhands/hooks.json": JSON.stringify({
      PreToolUse: [
        { matcher: "terminal", hooks: [{ type: "command", command: "echo before >> /tmp/hooked" }] },
      ],
      PostToolUse: [{ matcher: "*", hooks: [{ type: "command", command: "echo after >> /tmp/hooked" }] }],
      Stop: [{ matcher: "*", hooks: [{ type: "command", command: "true" }] }],
    }),
  },
  expected: expected("eight,eleven,five,four,nine,one,seven,six,ten,three,twelve,two"),
};

/** The last command: prints everything that the tools did. */
export const shownAtEnd = `sort ${marks} | cut -d' ' -f1 | paste -sd,; sort ${marks} | uniq -d; cat ${notes} patched 2>/dev/null`;
/** It leaves no trace, so it is always shown again. */
const atEnd: Work = { call: () => terminal(shownAtEnd), trace: "false", says: /^\w+(,\w+)+$/m };

export const interrupted = /interrupted and its outcome is unknown/;

/** The user wrote when a call began to wait for an approval. */
const unanswered = /the user wrote instead/;

interface Known {
  done: boolean;
  attempts: number;
  /** How often a trace was looked for, and how often one was found. */
  looks: number;
  answers: number;
}

/**
 * A model that does the steps, whatever is already done. Its only state is the history it reads.
 * When a call's outcome is unknown it checks, and repeats only what left no trace. A prompt that no
 * provider would accept gets 400, which ends the run; so does an unexpected result, unless `failed`
 * accepts it and the model checks and repeats the step.
 */
export function scriptModel(
  { steps, parts, asked = {} }: Task,
  failed: Failed = refuse,
): (request: ModelRequestSeen) => Reply {
  const memory = new Map<string, Map<string, string>>();
  return ({ messages, system, body }) => {
    if (system.includes("You keep the memory"))
      return reply.text("A summary that leaves nothing out.", { usage });
    const [first] = messages;
    const [, own] = Object.entries(parts).find(([prompt]) => first?.text.includes(prompt)) ?? [];
    const results = resultsOf(messages);
    const key = messages.map(({ text }) => /Do the work\. \S+/.exec(text)?.[0]).find(Boolean);
    if (key) {
      // A summary contains everything that was read before.
      const known = memory.get(key) ?? new Map<string, string>();
      for (const [id, text] of results) known.set(id, text);
      memory.set(key, known);
      if (messages.some(({ text }) => text.includes("CONVERSATION_SUMMARY")))
        for (const [id, text] of known) results.set(id, text);
    }
    const wanted = Object.entries(asked).flatMap(([words, more], number) => {
      // A summary keeps the user's messages.
      if (!messages.some(({ role, text }) => role === "user" && text.includes(words))) return [];
      return [more.map((step, index): [string, Step] => [`asked${number}_${index}`, step])];
    });
    const plan: [string, Step][] = [
      ...(own ?? steps).map((step, index): [string, Step] => [String(index), step]),
      ...wanted.flat(),
      ...(own ? [] : [[`end${wanted.length}`, [atEnd]] as [string, Step]]),
    ];
    for (const [place, step] of plan) {
      const calls = step.flatMap((work, index) => {
        const name = `${place}_${index}`;
        const known = knownOf(work, name, results, (text) =>
          failed(`${key ?? first?.text} ${name}: ${text}`),
        );
        if (work.model && known.done && `openai/${body.model}` !== work.model)
          throw new Error(`not the model that was switched to: ${body.model}`);
        return next(work, name, results, known);
      });
      if (calls.length > 0) return reply.toolCalls(calls, { usage });
    }
    return reply.toolCalls(
      [{ id: `finish${wanted.length}`, name: "finish", arguments: { message: "All is done." } }],
      { usage },
    );
  };
}

/** Receives an unexpected result. */
type Failed = (what: string) => void;

const refuse: Failed = (what) => {
  throw new Error(`not what it should say: ${what}`);
};

/** Tokens of each answer: their sum shows how many answers were counted. */
export const usage = { prompt: 10, completion: 5 };

/** Results by call id. Throws for missing, repeated and unrequested results. */
function resultsOf(messages: ModelRequestSeen["messages"]): Map<string, string> {
  const results = new Map<string, string>();
  let open = new Set<string>();
  for (const { role, text, toolCalls, toolCallId } of messages) {
    if (role === "tool" && !open.delete(toolCallId!))
      throw new Error(`a result that nobody asked for: ${toolCallId}`);
    if (role === "tool") results.set(toolCallId!, text);
    else if (open.size > 0) throw new Error(`no result of ${[...open]}`);
    if (role === "assistant") open = new Set(toolCalls.map(({ id }) => id));
    for (const id of open) if (results.has(id)) throw new Error(`a call that was made before: ${id}`);
  }
  if (open.size > 0) throw new Error(`no result of ${[...open]}`);
  return results;
}

function knownOf(
  work: Work,
  name: string,
  results: Map<string, string>,
  failed: (text: string) => void,
): Known {
  const known: Known = { done: false, attempts: 0, looks: 0, answers: 0 };
  for (
    let text = results.get(`${name}_try0`);
    text !== undefined;
    text = results.get(`${name}_try${++known.attempts}`)
  ) {
    const isUnknown = interrupted.test(text);
    if (isUnknown && work.trace === undefined)
      throw new Error(`a tool that may be run again was not: ${name}`);
    known.done = !isUnknown && (work.says?.test(text) ?? true);
    if (!isUnknown && !known.done && !unanswered.test(text)) failed(text);
  }
  for (
    let text = results.get(`${name}_look0`);
    text !== undefined;
    text = results.get(`${name}_look${++known.looks}`)
  ) {
    const [, found] = /is (there|missing)/.exec(text) ?? [];
    if (found) known.answers += 1;
    if (found === "there") known.done = true;
  }
  return known;
}

/** Where a call never has its effect, the run ends. */
const maxAttempts = 30;

function next(work: Work, name: string, results: Map<string, string>, known: Known): ScriptedToolCall[] {
  const { done, attempts, looks, answers } = known;
  if (done) return [];
  if (Math.max(attempts, looks) > maxAttempts) throw new Error(`never done: ${name}`);
  const id = `${name}_try${attempts}`;
  if (answers >= attempts) return [{ ...work.call(id, results), id }];
  // Identical calls would look like a stuck model.
  const again = looks > 0 ? `sleep 1; : ${looks}; ` : "";
  const look = terminal(
    `${again}{ ${work.trace ?? "false"}; } >/dev/null 2>&1 && echo is there || echo is missing`,
  );
  return [{ ...look, id: `${name}_look${looks}` }];
}
