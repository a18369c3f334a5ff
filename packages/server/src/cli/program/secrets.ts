import type { Command } from "commander";

/** `secrets`. */
export function addSecretCommands(program: Command): void {
  const secrets = program
    .command("secrets")
    .description("list, store and delete your secrets on the server")
    .addHelpText(
      "after",
      `
Examples:
  sandpiper secrets ls
  sandpiper secrets set TRACKER_TOKEN --host tracker.example.com < token.txt
  sandpiper secrets rm TRACKER_TOKEN`,
    );
  secrets
    .command("ls", { isDefault: true })
    .description("list the names, whether their values are inside sandboxes, and their hosts")
    .option("--json", "print one JSON object a line")
    .addHelpText("after", "\nExample:\n  sandpiper secrets ls")
    .action(async (options) => (await import("../secrets.ts")).listSecrets(options));
  secrets
    .command("set")
    .argument("<name>", "name of the environment variable in sandboxes")
    .argument("[value]", "its value; without one, it is asked for or read from standard input")
    .description("store a secret, or replace its value and the given options")
    .option("-d, --description <text>", "what it is for; agents read it")
    .option("-H, --host <host...>", "hosts that may get it (default: those of allow rules)")
    .option("--plain", "give the value itself to every program in your sandboxes")
    .option("--no-plain", "give programs a placeholder, as is usual")
    .addHelpText(
      "after",
      `
Examples:
  sandpiper secrets set TRACKER_TOKEN --host tracker.example.com < token.txt
  sandpiper secrets set DB_PASSWORD --plain`,
    )
    .action(async (name: string, value: string | undefined, options) =>
      (await import("../secrets.ts")).setSecret(name, value, options),
    );
  secrets
    .command("rm")
    .argument("<name>", "name of the secret")
    .description("delete a secret")
    .addHelpText("after", "\nExample:\n  sandpiper secrets rm TRACKER_TOKEN")
    .action(async (name: string) => (await import("../secrets.ts")).removeSecret(name));
}
