import { type Command, InvalidArgumentError, Option } from "commander";
import { formatVariablesHelp } from "../../config/documentation.ts";

/** `serve`, `gui`, `demo`, `doctor` and `migrate`. */
export function addMachineCommands(program: Command): void {
  program
    .command("serve")
    .description("start the platform and serve until a signal ends it")
    .addHelpText(
      "after",
      () => `
Examples:
  sandpiper serve
  SANDPIPER_HOST=0.0.0.0 SANDPIPER_PORT=8080 sandpiper serve

${formatVariablesHelp()}`,
    )
    .action(async () => {
      const { serve } = await import("../serve.ts");
      await serve();
    });
  program
    .command("gui")
    .description(
      "serve the released Agent Canvas, a web interface, beside the platform until a signal ends it",
    )
    .option("-p, --port <number>", "port on this machine; 0 takes a free one", parsePort, 3001)
    .addHelpText(
      "after",
      `
Examples:
  sandpiper gui
  sandpiper gui --port 8080

npm fetches the GUI once. The printed address logs one browser in, once. Ctrl-C ends the logins, too.`,
    )
    .action(async (options) => {
      const { gui } = await import("../gui/gui.ts");
      await gui(options);
    });
  program
    .command("demo")
    .description("repair a small project with the built-in demo model, live, then keep serving")
    .option("--exit", "exit instead of serving; the exit code is 0 only if the test passes in the sandbox")
    .addHelpText("after", "\nExample:\n  sandpiper demo --exit")
    .action(async (options) => {
      const { demo } = await import("../demo.ts");
      process.exitCode = await demo(options);
    });
  program
    .command("doctor")
    .description("check what this machine can do, with advice on missing parts")
    .option("--json", "print JSON")
    .addHelpText("after", "\nExample:\n  sandpiper doctor")
    .action(async (options) => {
      const { doctor } = await import("../doctor.ts");
      process.exitCode = await doctor(options);
    });
  program
    .command("migrate")
    .description("copy the data folder's conversations, settings and keys to an empty PostgreSQL database")
    .addOption(new Option("--to <engine>", "where the data goes").choices(["postgres"]).makeOptionMandatory())
    .option("--dry-run", "say what would be copied, and change nothing")
    .addHelpText(
      "after",
      `
Examples:
  SANDPIPER_DATABASE_URL_FILE=/etc/sandpiper/database sandpiper migrate --to postgres --dry-run
  SANDPIPER_DATABASE_URL_FILE=/etc/sandpiper/database sandpiper migrate --to postgres

The address comes from SANDPIPER_DATABASE_URL_FILE or SANDPIPER_DATABASE_URL, because arguments are
visible to other users. The server must be stopped. The copy is one transaction: if it is
interrupted, the database stays empty, and the command can be run again. The exit code is 0 only if
the digests of all tables and of each conversation's log agree.`,
    )
    .action(async (options) => {
      const { migrate } = await import("../migrate.ts");
      await migrate(options);
    });
}

function parsePort(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535)
    throw new InvalidArgumentError("It must be a number from 0 to 65535.");
  return Number(text);
}
