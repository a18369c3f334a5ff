import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { PlatformError } from "@sandpiper/core/errors";
import type { ExitStatus, SandboxProcess } from "../../driver.ts";
import type { Sandbox } from "../../sandbox.ts";
import { type RunResult, runToEnd } from "../run.ts";
import { checkProcessLimit } from "../terminal/process-limit.ts";
import { HeaderReader } from "./header-reader.ts";
import { endScript, exitScript, forgetScript, historyScript, joinedScript, openScript } from "./scripts.ts";

export interface HeldShellOptions {
  /** State folder in the sandbox. */
  folder: string;
  /** Epoch of the conversation's owner. The sandbox refuses a lower epoch than it has seen. */
  epoch: number;
  /** The text of `startScript` in `shell.ts`, and its words. */
  start: string[];
  env: Record<string, string>;
  size: { cols: number; rows: number };
}

/** The client of a held shell. */
export interface HeldProcess extends SandboxProcess {
  /** Leaves the shell to the next client. */
  detach(): void;
  /** Resolves when the connection to the client is lost. The shell may go on. */
  lost: Promise<void>;
}

/** A shell on a terminal that processes of the sandbox hold, so that it outlives the server. */
export interface HeldShell {
  /** `exit` resolves with the shell's status. `kill` ends the shell and its running command. */
  process: HeldProcess;
  /** Marker of the shell in its output. Each client that joins the shell gets it. */
  nonce: string;
  /** Output of an existing shell before `process.stdout` begins; undefined for a new shell. */
  history: Buffer | undefined;
}

/** Maximum wait for the first line of a client, ms. */
const answerTimeoutMs = 10_000;
/** Maximum wait for the barrier, ms. A stopped terminal passes on neither barrier nor output. */
const barrierTimeoutMs = 2_000;
/** Maximum size of the history that a client reads, bytes. */
const maxHistoryBytes = 128 * 2 ** 20;
/** Amount of output after which a client removes the parts that it has read, bytes. */
const forgetAfterBytes = 20 * 2 ** 20;

const killedStatus: ExitStatus = { code: null, signal: "SIGKILL" };

/**
 * Joins the held shell of a folder, or opens a new one. Returns undefined where the sandbox or its
 * driver cannot hold terminals. Throws CommandFenced, ProcessLimitReached, and what `exec` throws.
 */
export async function openHeldShell(
  sandbox: Sandbox,
  options: HeldShellOptions,
): Promise<HeldShell | undefined> {
  const [busybox, ...applet] = sandbox.shell ?? [];
  if (busybox === undefined || applet.length === 0) return undefined;
  const nonce = randomBytes(12).toString("hex");
  const barrier = `barrier-${randomBytes(12).toString("hex")}`;
  const { folder, epoch, start, env, size } = options;
  const words = [folder, String(epoch), nonce, barrier];
  const script = [busybox, ...applet, "-c", openScript, busybox, ...words];
  const client = await sandbox.exec({ argv: [...script, ...start], cwd: "/", env, isSession: true });
  client.stdin.on("error", () => {});
  client.stderr.resume();
  const header = new HeaderReader(client.stdout, answerTimeoutMs);
  try {
    const line = await header.readLine();
    const [answer, known] = line.split(" ");
    if (line === "") await checkProcessLimit(sandbox);
    if (answer === "f") throw new PlatformError("CommandFenced", { epoch });
    if (answer === "n" && client.unlockTerminal) {
      const path = await client.unlockTerminal(9, size);
      client.stdin.write(typeof path === "string" ? `${path}\n` : `!${path.join(" ")}\n`);
      header.release();
      return { process: toProcess(sandbox, folder, client), nonce, history: undefined };
    }
    if (answer === "o" && known) {
      const history = await readHistory(sandbox, folder, header, barrier);
      header.release();
      return { process: toProcess(sandbox, folder, client), nonce: known, history };
    }
  } catch (error) {
    leave(client);
    if (error instanceof PlatformError) throw error;
    if (client.isLost) return openHeldShell(sandbox, options);
    // The sandbox or its kernel cannot hold a terminal, so the caller opens a shell that ends with
    // the server.
  }
  const { isLost } = client;
  leave(client);
  if (isLost) return openHeldShell(sandbox, options);
  // The next commands run in another shell, and a later client must not join this one.
  await endHeldShell(sandbox, folder).catch(() => {});
  return undefined;
}

/** Closes the streams of a client. The process of the client may be the holder, so it lives on. */
function leave(client: SandboxProcess): void {
  client.stdin.destroy();
  client.stdout.destroy();
  client.leave?.();
}

/** Ends the held shell of a folder, if any, and removes the folder. Throws what `exec` throws. */
export async function endHeldShell(sandbox: Sandbox, folder: string): Promise<void> {
  if (sandbox.shell) await runScript(sandbox, endScript, [folder]);
}

/**
 * Runs a script of `scripts.ts` to its end, and again when its connection is lost. Throws what
 * `exec` throws.
 */
export async function runScript(sandbox: Sandbox, script: string, words: string[]): Promise<RunResult> {
  const [busybox = "busybox", ...applet] = sandbox.shell ?? [];
  const argv = [busybox, ...applet, "-c", script, busybox, ...words];
  for (;;) {
    const result = await runToEnd(sandbox, { argv, cwd: "/" }, { maxOutputBytes: maxHistoryBytes });
    if (!result.isLost) return result;
  }
}

/**
 * Returns the output before the barrier, and makes `header` skip the live output up to and with the
 * barrier. The terminal passes the barrier to the live output and to the parts, so no byte is
 * missing or doubled.
 */
async function readHistory(
  sandbox: Sandbox,
  folder: string,
  header: HeaderReader,
  barrier: string,
): Promise<Buffer> {
  const mark = Buffer.from(`\x1b_${barrier}\x1b\\`);
  const deadline = performance.now() + barrierTimeoutMs;
  const passed = await header.skipPast(mark, barrierTimeoutMs);
  for (;;) {
    const { stdout } = await runScript(sandbox, historyScript, [folder]);
    const at = stdout.indexOf(mark);
    // The holder writes to the live output before it writes to the part.
    if (passed && at < 0 && performance.now() < deadline) continue;
    if (stdout.length > forgetAfterBytes) await runScript(sandbox, forgetScript, [folder, "1"]);
    await runScript(sandbox, joinedScript, [folder]);
    return at < 0 ? stdout : stdout.subarray(0, at);
  }
}

function toProcess(sandbox: Sandbox, folder: string, client: SandboxProcess): HeldProcess {
  const killed = Promise.withResolvers<ExitStatus>();
  const lost = Promise.withResolvers<void>();
  let isKilled = false;
  let isLeft = false;
  const detach = () => {
    isLeft = true;
    leave(client);
    killed.resolve(killedStatus);
  };
  forgetOldParts(sandbox, folder, client);
  // The connection may have been lost while the client read the history.
  const closed = client.stdout.closed ? Promise.resolve() : once(client.stdout, "close");
  const ended = closed.then(async (): Promise<ExitStatus> => {
    // `exit` of a killed shell resolves once its folder is removed.
    if (isLeft || isKilled) return killed.promise;
    if (client.isLost) {
      lost.resolve();
      return killed.promise;
    }
    leave(client);
    const { stdout } = await runScript(sandbox, exitScript, [folder]);
    return /^\d+\n$/.test(stdout.toString())
      ? { code: Number(stdout.toString()), signal: null }
      : killedStatus;
  });
  const exit = Promise.race([killed.promise, ended.catch(() => killedStatus)]);
  const kill = () => {
    if (isKilled) return;
    isKilled = true;
    endHeldShell(sandbox, folder).then(detach, detach);
  };
  const { stdin, stdout, stderr } = client;
  return { stdin, stdout, stderr, exit, lost: lost.promise, kill, resize: () => {}, detach };
}

/** Removes the parts that the client has read. The first part stays: it begins a long output. */
function forgetOldParts(sandbox: Sandbox, folder: string, client: SandboxProcess): void {
  let bytes = 0;
  client.stdout.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes < forgetAfterBytes) return;
    bytes = 0;
    runScript(sandbox, forgetScript, [folder, "1"]).catch(() => {});
  });
}
