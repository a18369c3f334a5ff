import type { Command } from "commander";

/** `run` and `attach`: work in a sandbox. */
export function addWorkCommands(program: Command): void {
  withWorkOptions(
    program
      .command("run")
      .argument("<task>", "task for the agent, in plain language")
      .description("let an agent work on a copy of a folder and show its changes"),
  )
    .option("-a, --apply", "apply the changes to the folder; asks first on a terminal")
    .option("--merge", "with --apply, merge into files that changed meanwhile and leave conflict markers")
    .option("-y, --yes", "do not ask")
    .option("-k, --keep", "do not delete the sandbox at the end")
    .option("--trust", "let what the folder runs by itself (hooks, MCP servers of skills) use your secrets")
    .addHelpText(
      "after",
      `
Examples:
  sandpiper run "Make the failing test pass" --apply
  sandpiper run "Explain the build" --repo https://github.com/acme/widgets

Progress goes to standard error and the diff to standard output. Ctrl-C stops the agent and shows its changes so far; a second Ctrl-C quits.
Model keys come from the settings or from OPENAI_API_KEY, ANTHROPIC_API_KEY and so on.`,
    )
    .action(async (task: string, options) => {
      const { run } = await import("../run.ts");
      process.exitCode = await run(task, options);
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

/** The options of commands that start an agent. */
function withWorkOptions(command: Command): Command {
  return command
    .option("-d, --dir <path>", "folder to work on (default: the current one)")
    .option("-r, --repo <url>", "git repository to clone, with your own git, and to work on")
    .option("--secrets", "copy secret files (.env, keys) and home folders, too")
    .option("--copy-limit <size>", "copy folders up to this size (default: 5G)")
    .option(
      "-m, --model <name>",
      "model, for example anthropic/claude-sonnet-4-5 (default: the model of the settings)",
    );
}
