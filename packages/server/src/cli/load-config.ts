import type { Config } from "../config/config.ts";
import { listUnknownVariables, readConfig } from "../config/read-config.ts";
import type { Environment } from "../config/variable.ts";
import { getEnvironment } from "./environment.ts";
import { CliError, exitCodes } from "./errors.ts";
import { inertLine } from "./inert.ts";

/** Reads the configuration. Throws CliError for invalid values; warns about unknown variables. */
export function loadConfig(env: Environment = getEnvironment()): Config {
  for (const warning of listUnknownVariables(env)) process.stderr.write(`sandpiper: ${inertLine(warning)}\n`);
  try {
    return readConfig(env);
  } catch (error) {
    throw new CliError((error as Error).message, { cause: error, exitCode: exitCodes.usage });
  }
}
