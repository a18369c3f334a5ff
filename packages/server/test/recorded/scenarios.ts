import type { ScriptedToolCall } from "@sandpiper/models/test/support/model-answer";
import { type Reply, reply } from "@sandpiper/models/test/support/model-server";
import { editor, finish, terminal } from "../support/script.ts";
import { stdioMcp } from "../support/stdio-mcp.ts";
import type { Session } from "./session.ts";

const calls = (...toolCalls: ScriptedToolCall[]): Reply => reply.toolCalls(toolCalls);
const call = (name: string, args: object | string): ScriptedToolCall => ({ name, arguments: args });
const file = "/workspace/project/app/main.txt";

/** The recorded runs. Their commands have the same output on every machine. */
export const scenarios: Record<string, (session: Session) => Promise<void>> = {
  async terminal(session) {
    await session.settings();
    session.replies = [
      calls(terminal("mkdir -p app && cd app && pwd && export GREETING=hello")),
      calls(terminal("echo $GREETING; pwd; (exit 3)")),
      calls(terminal("seq 1 7000")),
      calls(terminal("read -r line && echo got $line", { timeout: 1 })),
      calls(terminal("some input", { is_input: true })),
      calls(terminal("sleep 60", { timeout: 1 })),
      calls(terminal("echo while it runs")),
      calls(terminal("C-c", { is_input: true })),
      calls(terminal("", { reset: true })),
      calls(
        terminal(
          "pwd; echo ${GREETING:-unset}; printf '\\033[31mred\\033[0m\\n'; mktemp; date; hostname; echo $$ | sed 's/[0-9]*/pid 1/'",
        ),
      ),
      finish("The shell works."),
    ];
    await session.start("Try the shell");
    await session.status("finished");
    session.replies = [
      reply.text("It kept its directory and lost it with the reset.", {
        thinking: { text: "What did I see?" },
      }),
    ];
    await session.say("What did you see?");
    await session.status("finished");
  },

  async editing(session) {
    await session.settings();
    session.replies = [
      calls(editor({ command: "create", path: file, file_text: "one\ntwo\nthree\n" })),
      calls(editor({ command: "view", path: "/workspace/project" })),
      calls(editor({ command: "str_replace", path: file, old_str: "two", new_str: "2" })),
      calls(editor({ command: "str_replace", path: file, old_str: "missing", new_str: "2" })),
      calls(editor({ command: "insert", path: file, insert_line: 1, new_str: "one and a half" })),
      calls(editor({ command: "view", path: file, view_range: [1, 2] })),
      calls(editor({ command: "undo_edit", path: file })),
      calls(editor({ command: "view", path: "relative.txt" })),
      calls(terminal("cat app/main.txt")),
      calls(
        call("task_tracker", {
          command: "plan",
          task_list: [
            { title: "Edit", status: "done" },
            { title: "Check", status: "todo" },
          ],
        }),
      ),
      calls(call("task_tracker", { command: "view" })),
      calls(call("think", { thought: "That was all." })),
      finish("Edited."),
    ];
    await session.start("Edit a file");
    await session.status("finished");
  },

  async mistakes(session) {
    await session.settings();
    const broken = calls(call("terminal", '{"command": "ls'));
    session.replies = [
      calls(call("teleport", { to: "mars" })),
      broken,
      broken,
      broken,
      calls(
        call("file_editor", { command: "view" }),
        call("terminal", { command: "echo fine", security_risk: "NONE" }),
      ),
      reply.answer({ text: "" }),
      calls(call("finish", { message: "Enough." }), terminal("echo never")),
    ];
    await session.start("Make mistakes");
    await session.status("finished");
    session.replies = [reply.error(400, { error: { message: "the scripted model refuses" } })];
    await session.say("Go on");
    await session.status("error");
    session.replies = [finish("Better.")];
    await session.say("Try again");
    await session.status("finished");
  },

  async confirmation(session) {
    await session.settings({}, { confirmation_mode: true, security_analyzer: "none" });
    session.replies = [
      calls(terminal("echo first > a.txt")),
      calls(terminal("echo second"), terminal("echo third")),
    ];
    await session.start("Ask me before you act");
    await session.status("waiting_for_confirmation");
    await session.command("run");
    await session.event(({ action }) => action?.command === "echo third");
    await session.status("waiting_for_confirmation");
    await session.command("events/respond_to_confirmation", { accept: false, reason: "Not these." });
    await session.status("idle");
    session.replies = [calls(terminal("cat a.txt")), finish("As you say.")];
    await session.command("run");
    await session.status("waiting_for_confirmation");
    await session.say("Do something else");
    await session.status("finished");
  },

  async parallel(session) {
    await session.settings({ tool_concurrency_limit: 4 });
    let answer: (given: Reply) => void = () => {};
    const held = new Promise<Reply>((resolve) => {
      answer = resolve;
    });
    session.replies = [
      held,
      calls(
        editor({ command: "create", path: file, file_text: "parallel\n" }),
        terminal("sleep 0.3; echo slow"),
        call("glob", { pattern: "**/*.txt" }),
        call("think", { thought: "At once." }),
      ),
      calls(terminal("sleep 100"), terminal("echo never")),
      calls(terminal("echo again")),
      finish("Done."),
    ];
    await session.start("Do much at once");
    await session.asked(1);
    await session.say("And listen meanwhile");
    answer(calls(terminal("echo begun")));
    await session.event(({ action }) => action?.command === "sleep 100");
    await session.command("interrupt");
    await session.status("paused");
    await session.say("Go on");
    await session.status("finished");
  },

  async condensation(session) {
    await session.settings({ condenser: { max_size: 20, keep_first: 2 } });
    const steps = Array.from({ length: 12 }, (_, index) => calls(terminal(`echo step ${index}`)));
    const message = "Your input exceeds the context window of this model.";
    const tooLong = reply.error(400, { error: { message, code: "context_length_exceeded" } });
    const more = Array.from({ length: 4 }, (_, index) => calls(terminal(`seq ${index} 200`)));
    session.replies = [
      ...steps,
      ...more,
      tooLong,
      calls(terminal("echo after the summary")),
      finish("Done."),
    ];
    await session.start("Work for a long time");
    await session.status("finished");
    await session.command("condense");
    session.replies = [calls(terminal("echo on")), finish("Done again.")];
    await session.say("A little more");
    await session.status("finished");
  },

  async outside(session) {
    await session.settings({ mcp_config: { local: stdioMcp() }, enable_sub_agents: true });
    session.replies = [
      calls(call("echo", { text: "hello" })),
      calls(call("grow", {})),
      calls(call("task", { description: "Look", prompt: "Look around", subagent_type: "general-purpose" })),
      finish("I looked."),
      finish("Done."),
    ];
    await session.start("Use what is outside");
    await session.status("finished");
  },
};
