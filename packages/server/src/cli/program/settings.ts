import type { Command } from "commander";
import { addSecretCommands } from "./secrets.ts";

/** A word after `keys` is meant as a command, and not as an argument of the default one. */
function nameCommand(text: string, keys: Command): string {
  const [, word] = /^error: too many arguments .* got \d+: ([^,.\s]+)/.exec(text) ?? [];
  if (word === undefined) return text;
  const names = keys.commands.map((command) => command.name());
  return `error: unknown command '${word}': keys has ${names.join(", ")}\n`;
}

/** `settings`, `secrets`, `keys` and `completion`. */
export function addSettingsCommands(program: Command): void {
  const settings = program
    .command("settings")
    .description("read and change your settings on the server")
    .addHelpText(
      "after",
      `
Examples:
  sandpiper settings get
  sandpiper settings set llm_model anthropic/claude-sonnet-4-5
  sandpiper settings set llm_api_key`,
    );
  settings
    .command("get", { isDefault: true })
    .argument("[name]", "name of a setting (default: all)")
    .description("print settings; secrets are not shown")
    .option("--json", "print JSON")
    .addHelpText("after", "\nExample:\n  sandpiper settings get llm_model")
    .action(async (name: string | undefined, options) =>
      (await import("../settings.ts")).getSettings(name, options),
    );
  settings
    .command("set")
    .argument("<name>", "name of the setting")
    .argument("[value]", "its value; without one, it is asked for or read from standard input")
    .description("change a setting; an empty text clears it")
    .addHelpText(
      "after",
      `
Examples:
  sandpiper settings set confirmation_mode true
  sandpiper settings set llm_api_key < key.txt`,
    )
    .action(async (name: string, value: string | undefined) =>
      (await import("../settings.ts")).setSetting(name, value),
    );

  addSecretCommands(program);

  const user = ["-u, --user <user>", "user of the key"] as const;
  const keys = program
    .command("keys")
    .description("list, create and revoke API keys of the data folder")
    .addHelpText(
      "after",
      "\nExamples:\n  sandpiper keys\n  sandpiper keys create --user ann --expires 30d\n  sandpiper keys revoke laptop",
    );
  keys
    .command("list", { isDefault: true })
    .configureOutput({ outputError: (text, write) => write(nameCommand(text, keys)) })
    .description(
      "list the keys: id, user, creation, expiry, last use, rights and name, but not the keys themselves",
    )
    .option(...user)
    .addHelpText("after", "\nExample:\n  sandpiper keys list --user ann")
    .action(async (options) => (await import("../keys.ts")).listKeys(options));
  keys
    .command("create")
    .description("create a key and print it; only a hash of it is stored")
    .option("-u, --user <user>", "user of the key; may be a new user (default: the user `default`)")
    .option("-n, --name <name>", "name of the key (default: key 1, key 2 …)")
    .option("-e, --expires <when>", "days such as 30d, or the last day such as 2027-01-31 (default: never)")
    .option("-r, --read-only", "the key may only read")
    .addHelpText("after", "\nExample:\n  sandpiper keys create --user ann --name laptop --expires 30d")
    .action(async (options) => (await import("../keys.ts")).createKey(options));
  keys
    .command("revoke")
    .argument("<key>", "id or name")
    .description("revoke a key and end its logins")
    .option(...user)
    .addHelpText("after", "\nExample:\n  sandpiper keys revoke laptop --user ann")
    .action(async (key: string, options) => (await import("../keys.ts")).revokeKey(key, options));

  program
    .command("completion")
    .argument("<shell>", "bash, zsh or fish")
    .description("print a script that completes commands, options and ids")
    .addHelpText(
      "after",
      `
Examples:
  sandpiper completion bash > ~/.local/share/bash-completion/completions/sandpiper
  sandpiper completion zsh > ~/.zfunc/_sandpiper
  sandpiper completion fish > ~/.config/fish/completions/sandpiper.fish`,
    )
    .action(async (shell: string) => {
      const { completion, printIds } = await import("../completion.ts");
      if (shell === "ids") await printIds();
      else {
        const script = completion(shell, program);
        process.stdout.write(script);
      }
    });
}
