import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { constants } from "node:os";
import { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type Docker from "dockerode";
import type { ExecRequest, ExitStatus, SandboxProcess } from "../../driver.ts";
import { type Answers, type Engine, engineMessage } from "./engine.ts";
import { takeApart } from "./frames.ts";
import type { Signaller } from "./processes.ts";

/** How the engine begins when it tells, in the place of output, that a command could not be run. */
const complaint = "OCI runtime exec failed";
/** What goes on longer is a program's own output, bytes. */
const longestComplaint = 4_096;
/** How long the engine may take from the end of a command's output until it knows the exit code, ms. */
const exitPatienceMs = 10_000;
const stepMs = 5;

export interface ExecTarget {
  engine: Engine;
  /** Id of the container. */
  container: string;
  /** `uid:gid` */
  user: string;
  workingDir: string;
  signaller: Signaller;
  /** What the engine's refusals mean for this sandbox. */
  answers: Answers<never>;
}

/**
 * Runs a command in a container over the engine's exec API. Where a child keeps the output open after the command ended, the engine ends
 * the output two seconds later.
 */
export async function execInContainer(target: ExecTarget, command: ExecRequest): Promise<SandboxProcess> {
  const { engine, signaller, answers } = target;
  const execKey = randomBytes(8).toString("hex");
  const tty = command.tty !== undefined;
  const env = [
    ...(tty ? ["TERM=xterm-256color"] : []),
    ...Object.entries(command.env ?? {}).map(([name, value]) => `${name}=${value}`),
    ...signaller.mark(execKey),
  ];
  const ConsoleSize = command.tty && ([command.tty.rows, command.tty.cols] as [number, number]);
  const exec = await engine.ask(
    "prepare a command",
    (abortSignal) =>
      engine.docker.getContainer(target.container).exec({
        ...{ Cmd: command.argv, Env: env, User: target.user, WorkingDir: command.cwd ?? target.workingDir },
        ...{ AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: tty, abortSignal },
        ...(ConsoleSize ? { ConsoleSize } : {}),
      }),
    answers,
  );
  // Newer engines refuse a command that cannot be run before there is output.
  const refused: Answers<string> = { 400: (message) => message, 500: (message) => message };
  const start = {
    hijack: true,
    stdin: true,
    Detach: false,
    Tty: tty,
    ...(ConsoleSize ? { ConsoleSize } : {}),
  };
  const socket = await engine.ask(
    "run a command",
    async (signal) => {
      const connection = await exec.start(start);
      if (signal.aborted) connection.destroy();
      return connection;
    },
    { ...answers, ...refused },
  );
  if (typeof socket === "string") return neverRan(socket);
  return await attach(target, exec, socket as unknown as Socket, command, execKey);
}

async function attach(
  target: ExecTarget,
  exec: Docker.Exec,
  socket: Socket,
  command: ExecRequest,
  execKey: string,
): Promise<SandboxProcess> {
  const { engine, signaller } = target;
  const tty = command.tty !== undefined;
  const sent = new Set<NodeJS.Signals>();
  let ended = false;
  let complaints = "";
  const { stdout, stderr } = takeApart(socket, tty, (chunk) => {
    const text = complaints + chunk.toString("latin1");
    if (text.startsWith(complaint) && text.length <= longestComplaint) {
      complaints = text;
      return true;
    }
    if (complaints) stdout.write(Buffer.from(complaints, "latin1"));
    complaints = "";
    return false;
  });

  // A connection that breaks ends the output; what became of the command, the engine tells.
  socket.on("error", () => {});
  const closed = new Promise<void>((resolve) => {
    socket.once("end", resolve);
    socket.once("close", resolve);
  });
  const exit = (async (): Promise<ExitStatus> => {
    await closed;
    const info = await finalState(engine, exec);
    ended = true;
    const ran = complaints === "" || info === undefined || info.Pid > 0 || (info.ExitCode ?? 0) < 126;
    if (complaints) (ran || tty ? stdout : stderr).write(Buffer.from(complaints, "latin1"));
    stdout.end();
    stderr.end();
    socket.destroy();
    if (!ran) return { code: refusedCode(complaints), signal: null };
    return exitStatus(info?.ExitCode ?? null, sent);
  })();

  let signals = Promise.resolve();
  const kill = (signal: NodeJS.Signals = "SIGKILL") => {
    if (ended) return;
    sent.add(signal);
    signals = signals
      .then(async () => {
        const info = await startedState(engine, exec);
        if (info?.Running)
          await signaller.one(target.container, target.user, { pid: info.Pid, execKey }, signal);
      })
      .catch(() => {});
  };
  let sizes: Promise<unknown> = Promise.resolve();
  const resize = (cols: number, rows: number) => {
    if (!tty || ended) return sizes;
    sizes = sizes
      .then(() =>
        engine.ask("resize a terminal", (abortSignal) => exec.resize({ w: cols, h: rows, abortSignal })),
      )
      .catch(() => {});
    return sizes;
  };
  // An older engine knows a terminal's size only once the command runs; input waits until it does.
  if (command.tty) await resize(command.tty.cols, command.tty.rows);
  return {
    stdin: inputOf(socket, tty),
    stdout,
    stderr,
    exit,
    kill,
    resize: (cols, rows) => void resize(cols, rows),
  };
}

/** The sending half of the connection. The end of a terminal's input is a control character, else the connection is closed halfway. */
function inputOf(socket: Socket, tty: boolean): Writable {
  const stdin = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (socket.destroyed || !socket.writable) return done();
      socket.write(chunk, () => done());
    },
    final(done) {
      if (tty) socket.write("\u0004", () => done());
      else socket.end(() => done());
    },
  });
  // The reader may end before everything is written; that is the command's own affair.
  stdin.on("error", () => {});
  socket.once("close", () => stdin.destroy());
  return stdin;
}

/** The state of a command when it has begun to run or has ended. Undefined when the engine does not say. */
async function startedState(engine: Engine, exec: Docker.Exec) {
  return await stateWhen(engine, exec, (info) => info.Pid > 0 || !info.Running);
}

async function finalState(engine: Engine, exec: Docker.Exec) {
  return await stateWhen(engine, exec, (info) => !info.Running && info.ExitCode !== null);
}

async function stateWhen(
  engine: Engine,
  exec: Docker.Exec,
  reached: (info: Docker.ExecInspectInfo) => boolean,
) {
  const end = Date.now() + exitPatienceMs;
  try {
    while (Date.now() < end) {
      const info = await engine.ask(
        "tell about a command",
        (abortSignal) => exec.inspect({ abortSignal }),
        {},
        exitPatienceMs,
      );
      if (reached(info)) return info;
      await delay(stepMs);
    }
  } catch {
    // The container or the engine is gone.
  }
  return undefined;
}

/** A signal looks like an exit code of 128 + n, which a shell's own may be, too: it counts as a signal only when it was sent from here. */
function exitStatus(code: number | null, sent: ReadonlySet<NodeJS.Signals>): ExitStatus {
  if (code === null) return { code: null, signal: "SIGKILL" };
  for (const signal of sent) if (code === 128 + constants.signals[signal]) return { code: null, signal };
  return { code, signal: null };
}

function neverRan(message: string): SandboxProcess {
  const stdin = new Writable({ write: (_chunk, _encoding, done) => done() });
  const exit = Promise.resolve({ code: refusedCode(message), signal: null });
  return {
    stdin,
    stdout: Readable.from([]),
    stderr: Readable.from([Buffer.from(`${engineMessage(new Error(message))}\n`)]),
    exit,
    kill: () => {},
    resize: () => {},
  };
}

/** 127 for a missing program, 126 for one that could not be run, as a shell does. */
function refusedCode(message: string): number {
  return !/chdir|\bcwd\b/.test(message) && /not found|no such file/i.test(message) ? 127 : 126;
}
