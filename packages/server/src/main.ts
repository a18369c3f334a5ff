import { Command } from "commander";
import { keepCompiledCode } from "./cli/compile-cache.ts";
import { CliError, exitCodes } from "./cli/errors.ts";
import { inert } from "./cli/inert.ts";
import { keepBundle } from "./cli/keep-bundle.ts";
import { nameSourcesInStacks } from "./cli/stack-sources.ts";
import { formatVariablesHelp } from "./config/documentation.ts";
import { platformVersion } from "./config/version.ts";

/** The command line. Commands load their code lazily, so that help and errors are fast. */
function commands(): Command {
  const program = new Command("sandpiper")
    .description("Runs software agents in isolated sandboxes behind one HTTP and WebSocket API.")
    .version(platformVersion, "-V, --version", "print the version")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show the help of a command")
    .showHelpAfterError("(see sandpiper --help)")
    .addHelpText(
      "after",
      "\nExit codes: 0 done, 1 failed, 2 wrong use or configuration, 130 interrupted.\nSANDPIPER_DEBUG=1 shows the stack of an error.",
    );

  program
    .command("serve")
    .description("start the platform and serve until a signal ends it")
    .addHelpText("after", () => `\n${formatVariablesHelp()}`)
    .action(async () => {
      const { serve } = await import("./cli/serve.ts");
      await serve();
    });

  program
    .command("run")
    .argument("<task>", "task for the agent, in plain language")
    .description("let an agent work on a copy of a folder and show its changes")
    .option("-d, --dir <path>", "folder to work on (default: the current one)")
    .option("-r, --repo <url>", "git repository to clone, with your own git, and to work on")
    .option(
      "-m, --model <name>",
      "model, for example anthropic/claude-sonnet-4-5 (default: the model of the settings)",
    )
    .option("-a, --apply", "apply the changes to the folder; asks first on a terminal")
    .option("-y, --yes", "do not ask")
    .option("-k, --keep", "do not delete the sandbox at the end")
    .addHelpText(
      "after",
      `
Progress goes to standard error and the diff to standard output. Ctrl-C stops the agent and shows its changes so far; a second Ctrl-C quits.
With SANDPIPER_URL and SANDPIPER_API_KEY set, that server does the work; otherwise a server is started for this run.
Model keys come from the settings or from OPENAI_API_KEY, ANTHROPIC_API_KEY and so on.`,
    )
    .action(async (task: string, options) => {
      const { run } = await import("./cli/run.ts");
      process.exitCode = await run(task, options);
    });

  program
    .command("export")
    .argument("<conversation>", "id of the conversation")
    .description("write a conversation with its model traffic, for a replay; secrets are masked")
    .option("-o, --output <file>", "file to write, readable only by you (default: standard output)")
    .addHelpText(
      "after",
      `
With SANDPIPER_URL and SANDPIPER_API_KEY set, the conversation is read from that server, otherwise from the data folder.`,
    )
    .action(async (conversation: string, options) => {
      const { exportRecording } = await import("./cli/export.ts");
      await exportRecording(conversation, options);
    });

  program
    .command("replay")
    .argument("<recording>", "file written by `sandpiper export`")
    .description("run this version's agent on a recorded conversation, offline, and report the differences")
    .option("-s, --spec <id>", "sandbox spec (default: as in the recording)")
    .option("-d, --dir <path>", "folder whose files are copied into the working folder")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
The model's answers come from the recording; tools run in a temporary sandbox without network.
Exit codes: 0 nothing differs, 1 something differs, 2 the recording cannot be replayed.`,
    )
    .action(async (recording: string, options) => {
      const { replayCommand } = await import("./cli/replay.ts");
      process.exitCode = await replayCommand(recording, options);
    });

  program
    .command("attach")
    .argument("<sandbox>", "id of the sandbox")
    .description("open a shell in a sandbox; wakes a paused sandbox")
    .addHelpText(
      "after",
      `
The exit code is the shell's. On a terminal every key goes to the sandbox, including Ctrl-C. Otherwise the shell reads
commands from standard input: echo ls | sandpiper attach SANDBOX
With SANDPIPER_URL and SANDPIPER_API_KEY set, the sandbox is on that server, otherwise in the data folder.`,
    )
    .action(async (sandbox: string) => {
      const { attach } = await import("./cli/attach.ts");
      process.exitCode = await attach(sandbox);
    });

  program
    .command("demo")
    .description("repair a small project with the built-in demo model, live, then keep serving")
    .option("--exit", "exit instead of serving; the exit code is 0 only if the test passes in the sandbox")
    .action(async (options) => {
      const { demo } = await import("./cli/demo.ts");
      process.exitCode = await demo(options);
    });

  const keys = program.command("keys").description("list, create and revoke API keys of the data folder");
  const user = ["-u, --user <user>", "user of the key"] as const;
  keys
    .command("list", { isDefault: true })
    .description(
      "list the keys: id, user, creation, expiry, last use, rights and name, but not the keys themselves",
    )
    .option(...user)
    .action(async (options) => (await import("./cli/keys.ts")).listKeys(options));
  keys
    .command("create")
    .description("create a key and print it; only a hash of it is stored")
    .option("-u, --user <user>", "user of the key; may be a new user (default: the user `default`)")
    .option("-n, --name <name>", "name of the key (default: key 1, key 2 …)")
    .option("-e, --expires <when>", "days such as 30d, or the last day such as 2027-01-31 (default: never)")
    .option("-r, --read-only", "the key may only read")
    .action(async (options) => (await import("./cli/keys.ts")).createKey(options));
  keys
    .command("revoke")
    .argument("<key>", "id or name")
    .description("revoke a key and end its logins")
    .option(...user)
    .action(async (key: string, options) => (await import("./cli/keys.ts")).revokeKey(key, options));

  program
    .command("doctor")
    .description("check what this machine can do, with advice on missing parts")
    .option("--json", "print JSON")
    .action(async (options) => {
      const { doctor } = await import("./cli/doctor.ts");
      process.exitCode = await doctor(options);
    });

  for (const command of [program, ...program.commands, ...keys.commands]) {
    command.exitOverride((error) => {
      process.exit(error.exitCode === 0 ? exitCodes.ok : exitCodes.usage);
    });
  }
  return program;
}

/** Prints the message of an error, or its stack with SANDPIPER_DEBUG=1; returns the exit code. */
function report(error: unknown): number {
  const { message = String(error), stack } = (error ?? {}) as Partial<Error>;
  const text = process.env.SANDPIPER_DEBUG === "1" && stack ? stack : message;
  process.stderr.write(`sandpiper: ${inert(text)}\n`);
  return error instanceof CliError ? error.exitCode : exitCodes.failed;
}

// A closed pipe (`sandpiper run … | head`) is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) =>
  process.exit(error.code === "EPIPE" ? exitCodes.ok : exitCodes.failed),
);

if (import.meta.url.endsWith(".js")) {
  nameSourcesInStacks();
  keepBundle();
}
keepCompiledCode();
try {
  await commands().parseAsync();
} catch (error) {
  process.exitCode = report(error);
}
