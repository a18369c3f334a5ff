import { stdioMcp } from "../../support/stdio-mcp.ts";
import {
  allDone,
  edit,
  harmless,
  mark,
  marks,
  notes,
  otherModel,
  part,
  type Step,
  type Task,
  userWish,
  type Work,
} from "./task.ts";
import { forbidden, userActions } from "./user-actions.ts";

/** Leaves nothing that could be looked at. */
const again = (name: string, args: object, says: RegExp): Work => ({
  ...harmless(name, args, says),
  trace: "false",
});

/** In the eyes of the rules, since it reads a key. */
const risky = "cat ~/.ssh/id_none 2>/dev/null; ";

const patch = "*** Begin Patch\n*** Add File: patched\n+patched\n*** End Patch";
const site =
  "mkdir -p /tmp/site; echo '<title>Shop</title>' > /tmp/site/index.html; setsid python3 -m http.server 8000 -d /tmp/site >/dev/null 2>&1 & until curl -s localhost:8000 >/dev/null; do sleep 0.05; done; ";

const taskId = /task_[0-9a-f]{8}/;

/** Goes on with the sub-agent of an earlier call. */
const resumed = (prompt: string, earlier: string): Work => ({
  call: (_, results) => {
    const [, earlierResult] =
      [...results].findLast(([id, text]) => id.startsWith(`${earlier}_try`) && taskId.test(text)) ?? [];
    return {
      name: "task",
      arguments: { description: prompt, prompt, resume: taskId.exec(earlierResult ?? "")?.[0] },
    };
  },
  says: allDone,
});

const steps: readonly Step[] = [
  [mark("one"), edit({ command: "create", path: notes, file_text: "first\n" }, `ls ${notes}`)],
  [mark("two", risky)],
  [
    {
      call: (id) => ({ name: "append", arguments: { path: marks, text: `three ${id}` } }),
      trace: `grep '^three ' ${marks}`,
      says: /added/,
    },
    again("add", { a: 1, b: 2 }, /3/),
    part("Do four."),
  ],
  [
    {
      ...harmless("switch_llm", { profile_name: "other", reason: "It is better at this." }, /The model is/),
      model: otherModel,
    },
  ],
  [again("invoke_skill", { name: "style" }, /Short sentences/), mark("five")],
  [{ ...mark(forbidden, risky), says: /Not this|the user wrote instead/ }],
  [{ call: () => ({ name: "apply_patch", arguments: { patch } }), trace: "ls patched", says: /A patched/ }],
  [resumed("Do six.", "2_2"), mark("seven", risky)],
  [mark("eight", site)],
  [again("browser_navigate", { url: "http://localhost:8000/" }, /Shop/)],
  [again("browser_list_tabs", {}, /Shop/)],
];

/**
 * A user approves, rejects, pauses and writes; the agent uses MCP servers inside and outside,
 * another model, a skill, a patch, a browser and a resumed sub-agent.
 */
export const interactiveTask: Task = {
  steps,
  parts: { "Do four.": [[mark("four")]] },
  asked: {
    [userWish]: [[mark("thirteen")], [harmless("think", { thought: "It is late." })]],
    "Do six.": [[mark("six")]],
  },
  settings: ({ mcpUrl }) => ({
    enable_sub_agents: true,
    enable_switch_llm_tool: true,
    tool_concurrency_limit: 4,
    condenser: { max_size: 20 },
    mcp_config: {
      near: stdioMcp(),
      far: { url: mcpUrl, headers: { Authorization: "Bearer mcp-key-of-the-test" } },
    },
    tools: ["terminal", "file_editor", "task_tracker", "glob", "grep", "apply_patch", "browser_tool_set"].map(
      (name) => ({
        name,
      }),
    ),
  }),
  legacySettings: { confirmation_mode: true, security_analyzer: "pattern" },
  files: {
    "project/.agents/skills/style/SKILL.md":
      "---\nname: style\ndescription: How texts are written\n---\nShort sentences. !`echo read`",
  },
  userActions,
  expected: "eight,five,four,one,seven,six,thirteen,three,two\nfirst\npatched",
};
