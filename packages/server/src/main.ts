import { Command } from "commander";
import { keepCompiledCode } from "./cli/compile-cache.ts";
import { CliError, exitCodes } from "./cli/errors.ts";
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
    .argument("<task>", "what the agent has to do, in your words")
    .description("let an agent work on a copy of a folder and show what it changed")
    .option("-d, --dir <path>", "folder to work on (default: the current one)")
    .option("-r, --repo <url>", "git repository to clone, with your own git, and work on")
    .option(
      "-m, --model <name>",
      "model, for example anthropic/claude-sonnet-4-5 (default: the one of the settings)",
    )
    .option("-a, --apply", "bring the changes back into the folder; asks first on a terminal")
    .option("-y, --yes", "do not ask")
    .option("-k, --keep", "leave the sandbox as it is")
    .addHelpText(
      "after",
      `
Progress goes to standard error and the diff to standard output. Ctrl-C stops the agent and shows what it did; twice quits.
With SANDPIPER_URL and SANDPIPER_API_KEY set the work is done by that server, else by one that is started for this run.
Model keys come from the settings or from OPENAI_API_KEY, ANTHROPIC_API_KEY and so on.`,
    )
    .action(async (task: string, options) => {
      const { run } = await import("./cli/run.ts");
      process.exitCode = await run(task, options);
    });

  program
    .command("export")
    .argument("<conversation>", "id of the conversation")
    .description("write a conversation with its model traffic, secrets masked, to be replayed")
    .option("-o, --output <file>", "file to write, which only you can read (default: standard output)")
    .addHelpText(
      "after",
      `
With SANDPIPER_URL and SANDPIPER_API_KEY set the conversation is one of that server, else one of the data folder.`,
    )
    .action(async (conversation: string, options) => {
      const { exportRecording } = await import("./cli/export.ts");
      await exportRecording(conversation, options);
    });

  program
    .command("replay")
    .argument("<recording>", "file that `sandpiper export` wrote")
    .description(
      "run this version's agent on a recorded conversation, offline, and tell where it goes another way",
    )
    .option("-s, --spec <id>", "what the sandbox is made of (default: as in the recording)")
    .option("-d, --dir <path>", "folder with the files that the working folder begins with")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
The model's answers come from the recording; tools run in a new sandbox without a network. Nothing of it is left.
Exit codes: 0 nothing differs, 1 something differs, 2 the recording cannot be replayed.`,
    )
    .action(async (recording: string, options) => {
      const { replayCommand } = await import("./cli/replay.ts");
      process.exitCode = await replayCommand(recording, options);
    });

  program
    .command("attach")
    .argument("<sandbox>", "id of the sandbox")
    .description("open a shell in a sandbox; a paused one wakes")
    .addHelpText(
      "after",
      `
On a terminal every key goes to the sandbox, Ctrl-C too, and the shell's exit code is this command's. Otherwise the shell reads its
commands from standard input: echo ls | sandpiper attach SANDBOX
With SANDPIPER_URL and SANDPIPER_API_KEY set the sandbox is one of that server, else one of the data folder.`,
    )
    .action(async (sandbox: string) => {
      const { attach } = await import("./cli/attach.ts");
      process.exitCode = await attach(sandbox);
    });

  program
    .command("demo")
    .description("repair a small project with the built-in demo model, live, then go on serving")
    .option("--exit", "end instead of serving; the exit code is 0 only if the test passes in the sandbox")
    .action(async (options) => {
      const { demo } = await import("./cli/demo.ts");
      process.exitCode = await demo(options);
    });

  const keys = program.command("keys").description("list, create and revoke API keys of the data folder");
  const user = ["-u, --user <user>", "user whom the key belongs to"] as const;
  keys
    .command("list", { isDefault: true })
    .description(
      "list the keys: id, user, creation, expiry, last use, rights and name; never the keys themselves",
    )
    .option(...user)
    .action(async (options) => (await import("./cli/keys.ts")).listKeys(options));
  keys
    .command("create")
    .description("make a key and print it; it is stored only as a hash")
    .option("-u, --user <user>", "user whom the key belongs to, a new one too (default: the user `default`)")
    .option("-n, --name <name>", "name by which you know it again (default: key 1, key 2 …)")
    .option("-e, --expires <when>", "days such as 30d, or a last day such as 2027-01-31 (default: never)")
    .option("-r, --read-only", "the key may read, and change nothing")
    .action(async (options) => (await import("./cli/keys.ts")).createKey(options));
  keys
    .command("revoke")
    .argument("<key>", "id or name")
    .description("make a key worthless, and end the logins that were made with it")
    .option(...user)
    .action(async (key: string, options) => (await import("./cli/keys.ts")).revokeKey(key, options));

  program
    .command("doctor")
    .description("say what this machine can do, and what to do about what is missing")
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
  process.stderr.write(`sandpiper: ${process.env.SANDPIPER_DEBUG === "1" && stack ? stack : message}\n`);
  return error instanceof CliError ? error.exitCode : exitCodes.failed;
}

// A closed pipe (`sandpiper run … | head`) is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) =>
  process.exit(error.code === "EPIPE" ? exitCodes.ok : exitCodes.failed),
);

keepCompiledCode();
try {
  await commands().parseAsync();
} catch (error) {
  process.exitCode = report(error);
}
