import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { databaseVariables } from "./nodes/databases.ts";
import { caller, type TestPlatform, testKey } from "./platform.ts";

/** What makes a process run elsewhere (scripts/elsewhere). */
const elsewhere = /^(?:LD_PRELOAD|FAKETIME\w*|NO_FAKE_STAT|TZ|LC_ALL|LOCPATH)$/;
const serverMainScript = fileURLToPath(new URL("../../../../scripts/server-main", import.meta.url));
/** The program of the server. */
export const serverMain = execFileSync(serverMainScript, { encoding: "utf8" }).trim();

/** A server in a process of its own, as a user starts it, so that a test can kill it. */
export interface ServerProcess {
  url: string;
  key: string;
  call: TestPlatform["call"];
  child: ChildProcess;
  /** Everything that it printed. */
  output(): string;
  /** Sends a signal and waits for the process to end; returns its exit code. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/** Starts `sandpiper serve` of the program `main` and resolves when it listens. */
export async function startServerProcess(
  dataDir: string,
  env: Record<string, string> = {},
  main = serverMain,
): Promise<ServerProcess> {
  const child = spawn(process.execPath, [main, "serve"], {
    env: {
      PATH: process.env.PATH ?? "",
      HOME: process.env.HOME ?? "/",
      SANDPIPER_DATA: dataDir,
      SANDPIPER_API_KEY: testKey,
      SANDPIPER_PORT: "0",
      SANDPIPER_LOG_LEVEL: "error",
      ...Object.fromEntries(Object.entries(process.env).filter(([name]) => elsewhere.test(name))),
      ...(await databaseVariables(dataDir)),
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const url = await new Promise<string>((resolve, reject) => {
    const read = (text: string) => {
      output += text;
      const found = /http:\/\/[\w.:[\]-]+\d/.exec(output);
      if (found) resolve(found[0]);
    };
    child.stdout.setEncoding("utf8").on("data", read);
    child.stderr.setEncoding("utf8").on("data", read);
    void ended.then((code) => reject(new Error(`The server ended with ${code}: ${output}`)));
  });
  return {
    url,
    key: testKey,
    call: caller(url, testKey),
    child,
    output: () => output,
    end(signal) {
      child.kill(signal);
      return ended;
    },
  };
}
