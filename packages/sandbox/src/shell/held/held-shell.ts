import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { PlatformError } from "@sandpiper/core/errors";
import type { ExitStatus, SandboxProcess } from "../../driver.ts";
import type { Sandbox } from "../../sandbox.ts";
import { runToEnd } from "../run.ts";
import { HeaderReader } from "./header-reader.ts";
import { endScript, exitScript, forgetScript, historyScript, joinedScript, openScript } from "./scripts.ts";

export interface HeldShellOptions {
  /** State folder in the sandbox. */
  folder: string;
  /** Number of the conversation's owner: a lower one than the sandbox has seen is refused. */
  epoch: number;
  /** Of a new shell. */
  argv: string[];
  env: Record<string, string>;
  size: { cols: number; rows: number };
}

/** A shell on a terminal that processes of the sandbox hold, so that it outlives the server. */
export interface HeldShell {
  /** `exit` resolves with the shell's own status; `kill` ends the shell and its program. */
  process: SandboxProcess & {
    /** Leaves the shell to whoever joins it next. */
    detach(): void;
  };
  /** Known to whoever joins the shell. */
  nonce: string;
  /** What an existing shell has printed before `process.stdout` begins; undefined for a new one. */
  history: Buffer | undefined;
}

/** Wait for an answer of the sandbox, ms. */
const answerTimeoutMs = 10_000;
/** Wait for the barrier, ms: a stopped terminal does not take it, and prints nothing either. */
const barrierTimeoutMs = 2_000;
/** Limit of what is read of a shell's earlier output, bytes. */
const maxHistoryBytes = 128 * 2 ** 20;
/** Bytes after which parts of the kept output are removed. */
const forgetAfterBytes = 20 * 2 ** 20;

/** Share of a sandbox's processes above which further shells are not held: each needs seven. */
const maxProcessShare = 1 / 2;

const killedStatus: ExitStatus = { code: null, signal: "SIGKILL" };

/**
 * Opens the held shell of a folder, a new one or the existing one. Undefined where the sandbox or
 * its driver cannot hold terminals. Throws CommandFenced, and what `exec` throws.
 */
export async function openHeldShell(
  sandbox: Sandbox,
  options: HeldShellOptions,
): Promise<HeldShell | undefined> {
  const [busybox, ...applet] = sandbox.shell ?? [];
  if (busybox === undefined || applet.length === 0) return undefined;
  const nonce = randomBytes(12).toString("hex");
  const barrier = `barrier-${randomBytes(12).toString("hex")}`;
  const { folder, epoch, argv, env, size } = options;
  const room = Math.floor(sandbox.spec.limits.pids * maxProcessShare);
  const words = [folder, String(epoch), nonce, barrier, String(room)];
  const script = [busybox, ...applet, "-c", openScript, busybox, ...words];
  const client = await sandbox.exec({ argv: [...script, ...argv], cwd: "/", env, isSession: true });
  client.stdin.on("error", () => {});
  client.stderr.resume();
  const header = new HeaderReader(client.stdout, answerTimeoutMs);
  try {
    const [answer, known] = (await header.readLine()).split(" ");
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
    // The kernel or the sandbox does not allow it: the shell runs as one that ends with the server.
  }
  leave(client);
  // A shell that was not joined must not be taken for the one in which the next commands run.
  await endHeldShell(sandbox, folder).catch(() => {});
  return undefined;
}

/** Closes the streams of a client. Its process may hold the terminal, so it is not killed. */
function leave(client: SandboxProcess): void {
  client.stdin.destroy();
  client.stdout.destroy();
  client.leave?.();
}

/** Ends the held shell of a folder, if any, and removes the folder. Throws what `exec` throws. */
export async function endHeldShell(sandbox: Sandbox, folder: string): Promise<void> {
  if (sandbox.shell) await runScript(sandbox, endScript, [folder]);
}

/** Runs a script of `scripts.ts` to its end. */
export function runScript(sandbox: Sandbox, script: string, words: string[]) {
  const [busybox = "busybox", ...applet] = sandbox.shell ?? [];
  const argv = [busybox, ...applet, "-c", script, busybox, ...words];
  return runToEnd(sandbox, { argv, cwd: "/" }, { maxOutputBytes: maxHistoryBytes });
}

/**
 * The output before the barrier, which `header` is left behind: the terminal passes the barrier to
 * the live output and to the kept one, so that both meet there without a gap.
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
    // The live output is written first.
    if (passed && at < 0 && performance.now() < deadline) continue;
    if (stdout.length > forgetAfterBytes) await runScript(sandbox, forgetScript, [folder, "1"]);
    await runScript(sandbox, joinedScript, [folder]);
    return at < 0 ? stdout : stdout.subarray(0, at);
  }
}

function toProcess(sandbox: Sandbox, folder: string, client: SandboxProcess): HeldShell["process"] {
  const killed = Promise.withResolvers<ExitStatus>();
  let isKilled = false;
  let isLeft = false;
  const detach = () => {
    isLeft = true;
    leave(client);
    killed.resolve(killedStatus);
  };
  forgetOldParts(sandbox, folder, client);
  const ended = once(client.stdout, "close").then(async (): Promise<ExitStatus> => {
    // The end of the shell is not over before its folder is removed.
    if (isLeft || isKilled) return killed.promise;
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
  return { stdin, stdout, stderr, exit, kill, resize: () => {}, detach };
}

/** The kept output is bounded. The first part stays: it has the beginning of a long output. */
function forgetOldParts(sandbox: Sandbox, folder: string, client: SandboxProcess): void {
  let bytes = 0;
  client.stdout.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes < forgetAfterBytes) return;
    bytes = 0;
    runScript(sandbox, forgetScript, [folder, "1"]).catch(() => {});
  });
}
