import { Command } from "commander";
import { platformVersion } from "../../config/version.ts";
import { exitCodes } from "../errors.ts";
import { addConversationCommands } from "./conversations.ts";
import { addMachineCommands } from "./machine.ts";
import { addRecordingCommands } from "./recordings.ts";
import { addSettingsCommands } from "./settings.ts";
import { addWorkCommands } from "./work.ts";

/** The command line. Commands load their code lazily, so that help and errors are fast. */
export function createProgram(): Command {
  const program = new Command("sandpiper")
    .description("Runs software agents in isolated sandboxes behind one HTTP and WebSocket API.")
    .version(platformVersion, "-V, --version", "print the version")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show the help of a command")
    .showHelpAfterError("(see sandpiper --help)")
    .addHelpText(
      "after",
      `
Examples:
  sandpiper run "Make the failing test pass" --apply
  sandpiper chat
  sandpiper ls

Exit codes: 0 done, 1 failed, 2 wrong use or configuration, 130 interrupted (143 by SIGTERM, 129 by the end of the terminal).
SANDPIPER_DEBUG=1 shows the stack of an error.`,
    );
  addWorkCommands(program.commandsGroup("Work:"));
  addConversationCommands(program.commandsGroup("Conversations:"));
  addSettingsCommands(program.commandsGroup("Settings:"));
  addMachineCommands(program.commandsGroup("Server:"));
  addRecordingCommands(program.commandsGroup("Recordings:"));
  endWithExitCodes(program);
  return program;
}

function endWithExitCodes(command: Command): void {
  command.exitOverride((error) => {
    process.exit(error.exitCode === 0 ? exitCodes.ok : exitCodes.usage);
  });
  for (const child of command.commands) endWithExitCodes(child);
}
