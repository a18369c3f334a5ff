import type { Command } from "commander";

/** `export` and `replay`. */
export function addRecordingCommands(program: Command): void {
  program
    .command("export")
    .argument("<conversation>", "id of the conversation")
    .description("write a conversation with its model traffic, for a replay; secrets are masked")
    .option("-o, --output <file>", "file to write, readable only by you (default: standard output)")
    .addHelpText("after", "\nExample:\n  sandpiper export 5f3c9a2e4b1d4c6f8a7b0c1d2e3f4a5b -o work.jsonl")
    .action(async (conversation: string, options) => {
      const { exportRecording } = await import("../export.ts");
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
Example:
  sandpiper replay work.jsonl --dir .

The model's answers come from the recording; tools run in a temporary sandbox without network.
Exit codes: 0 nothing differs, 1 something differs, 2 the recording cannot be replayed.`,
    )
    .action(async (recording: string, options) => {
      const { replayCommand } = await import("../replay.ts");
      process.exitCode = await replayCommand(recording, options);
    });
}
