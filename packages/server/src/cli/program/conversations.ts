import { type Command, InvalidArgumentError } from "commander";

const idHelp = "id of the conversation, or its beginning";

/** `ls`, `show`, `logs`, `stop`, `rm`. */
export function addConversationCommands(program: Command): void {
  program
    .command("ls")
    .description("list conversations, the newest first")
    .option("-n, --limit <number>", "how many to show; 0 shows all", parseCount, 20)
    .option("--json", "print one JSON object a line")
    .addHelpText("after", "\nExamples:\n  sandpiper ls\n  sandpiper ls -n 0 --json | jq .title")
    .action(async (options) => (await import("../list.ts")).list(options));
  program
    .command("show")
    .argument("<id>", idHelp)
    .description("show a conversation and the agent's last answer")
    .option("--json", "print JSON")
    .addHelpText("after", "\nExample:\n  sandpiper show 5f3c")
    .action(async (id: string, options) => (await import("../show.ts")).show(id, options));
  program
    .command("logs")
    .argument("<id>", idHelp)
    .description("print the events of a conversation")
    .option("-f, --follow", "go on with new events until the run ends")
    .option("--json", "print one event a line as JSON")
    .addHelpText(
      "after",
      "\nExamples:\n  sandpiper logs -f 5f3c\n  sandpiper logs --json 5f3c > events.jsonl",
    )
    .action(async (id: string, options) => (await import("../logs.ts")).logs(id, options));
  program
    .command("stop")
    .argument("<id...>", idHelp)
    .description("interrupt the agent of conversations")
    .addHelpText("after", "\nExample:\n  sandpiper stop 5f3c")
    .action(async (ids: string[]) => (await import("../stop.ts")).stop(ids));
  program
    .command("rm")
    .argument("<id...>", idHelp)
    .description("delete conversations, with sandboxes that no other conversation uses")
    .addHelpText("after", "\nExample:\n  sandpiper rm 5f3c 81ab")
    .action(async (ids: string[]) => (await import("../stop.ts")).remove(ids));
}

function parseCount(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}
