import { type Command, InvalidArgumentError, Option } from "commander";

/** `run`, `chat` and `attach`: work in a sandbox. */
export function addWorkCommands(program: Command): void {
  withWorkOptions(
    program
      .command("run")
      .argument("<task>", "task for the agent, in plain language")
      .description("let an agent work on a copy of a folder and show its changes"),
  )
    .option("-a, --apply", "apply the changes to the folder; asks first on a terminal")
    .option("-y, --yes", "do not ask")
    .option("--merge", "with --apply: merge into files that changed meanwhile, with conflict markers")
    .option("-k, --keep", "keep the sandbox running, also when later runs on this folder end")
    .option("--rm", "delete the sandbox at the end")
    .option("--json", "print one JSON object a line: start, events, result")
    .addHelpText(
      "after",
      `
Examples:
  sandpiper run "Make the failing test pass" --apply
  sandpiper run "And add a test for leap years" --continue
  sandpiper run "Port this to Python 3.13" --image python:3.13 --allow pypi.org --max-cost 2
  sandpiper run "Update the changelog" --json > events.jsonl

Progress goes to standard error and the diff to standard output. Ctrl-C stops the agent and shows its changes so far; a second Ctrl-C quits.
Model keys come from the settings or from OPENAI_API_KEY, ANTHROPIC_API_KEY and so on, for --base-url from LLM_API_KEY.`,
    )
    .action(async (task: string, options) => {
      const { run } = await import("../run.ts");
      process.exitCode = await run(task, options);
    });

  withWorkOptions(
    program.command("chat").description("work with an agent on a copy of a folder, message by message"),
  )
    .addHelpText(
      "after",
      `
Examples:
  sandpiper chat
  sandpiper chat --dir ~/project --model anthropic/claude-sonnet-4-5
  sandpiper chat --continue

/help lists the commands of a session. @path sends a file with a message. Ctrl-C interrupts the agent.`,
    )
    .action(async (options) => {
      const { chat } = await import("../chat/chat.ts");
      process.exitCode = await chat(options);
    });

  program
    .command("attach")
    .argument("<sandbox>", "id of the sandbox")
    .description("open a shell in a sandbox; wakes a paused sandbox")
    .addHelpText(
      "after",
      `
Examples:
  sandpiper attach sbx-4f2a
  echo ls | sandpiper attach sbx-4f2a

The exit code is the shell's. On a terminal every key goes to the sandbox, including Ctrl-C. Otherwise the shell reads
commands from standard input.`,
    )
    .action(async (sandbox: string) => {
      const { attach } = await import("../attach.ts");
      process.exitCode = await attach(sandbox);
    });
}

/** The options of `run` and `chat`: folder, sandbox, model, conversation. */
function withWorkOptions(command: Command): Command {
  return command
    .option("-d, --dir <path>", "folder to work on (default: the current one)")
    .option("-r, --repo <url>", "git repository to clone, with your own git, and to work on")
    .option("--secrets", "copy secret files (.env, keys) and home folders, too")
    .option("--no-secrets", "leave secret files out and do not ask")
    .option("--copy-limit <size>", "copy folders up to this size (default: 5G)")
    .option(
      "-m, --model <name>",
      "model, for example anthropic/claude-sonnet-4-5 (default: the model of the settings)",
    )
    .option("--base-url <url>", "address of the model's API; its key is in LLM_API_KEY")
    .option("--max-cost <usd>", "stop when the conversation has cost this much", parseCost)
    .option("--trust", "let what the folder runs by itself (hooks, MCP servers of skills) use your secrets")
    .option("-c, --continue [id]", "continue a conversation (default: the last one of the folder)")
    .addOption(new Option("--image <reference>", "container image of the sandbox").conflicts("spec"))
    .option("--spec <id>", "sandbox spec (default: the one of the settings)")
    .option("--allow <host[:port]>", "host that the sandbox may reach, besides those of its spec", collect)
    .option("-e, --env <name[=value]>", "variable in the sandbox; without a value, your own", collect);
}

function collect(value: string, before: string[] = []): string[] {
  return [...before, value];
}

function parseCost(text: string): number {
  const usd = Number(text);
  if (!(usd > 0)) throw new InvalidArgumentError("It must be a number of USD above 0, such as 2.50.");
  return usd;
}
