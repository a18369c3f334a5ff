import { keepCompiledCode } from "./cli/compile-cache.ts";
import { hideSecrets } from "./cli/environment.ts";
import { CliError, exitCodes } from "./cli/errors.ts";
import { keepBundle } from "./cli/keep-bundle.ts";
import { createProgram } from "./cli/program/program.ts";
import { nameSourcesInStacks } from "./cli/stack-sources.ts";

/** Prints the message of an error, or its stack with SANDPIPER_DEBUG=1; returns the exit code. */
async function report(error: unknown): Promise<number> {
  // Loaded lazily: help starts faster.
  const { formatSentence } = await import("./cli/notes.ts");
  const { message = String(error), stack } = (error ?? {}) as Partial<Error>;
  const text = process.env.SANDPIPER_DEBUG === "1" && stack ? stack : message;
  process.stderr.write(`${formatSentence(`sandpiper: ${text}`, process.stderr)}\n`);
  return error instanceof CliError ? error.exitCode : exitCodes.failed;
}

hideSecrets();

// A closed pipe (`sandpiper run … | head`) is not an error.
process.stdout.on("error", ({ code }: NodeJS.ErrnoException) => {
  // After SIGHUP, the terminal is gone, and the command ends by itself.
  if (code !== "EIO") process.exit(code === "EPIPE" ? exitCodes.ok : exitCodes.failed);
});

if (import.meta.url.endsWith(".js")) {
  nameSourcesInStacks();
  keepBundle();
}
process.stderr.on("error", () => {});

keepCompiledCode();
try {
  await createProgram().parseAsync();
} catch (error) {
  process.exitCode = await report(error);
}
