import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type Docker from "dockerode";
import type { ExecRequest, ExitStatus, SandboxProcess } from "../../driver.ts";
import { unlockProcessTerminal } from "../../kernel/process-terminal.ts";
import type { TtySize } from "../../kernel/pseudo-terminal.ts";
import { toExitStatus, toRefusedExitCode } from "../common/commands.ts";
import { demultiplex } from "./demultiplex.ts";
import { type Engine, getEngineMessage, type RefusalHandlers } from "./engine.ts";
import { DirectSignaller, isMember, type Signaller } from "./processes.ts";

/** Start of the message that the engine sends instead of output when a command could not run. */
const refusalPrefix = "OCI runtime exec failed";
/** Longer output is that of a program. */
const maxRefusalBytes = 4_096;
/** Timeout from the end of a command's output until the engine knows the exit code, ms. */
const exitTimeoutMs = 10_000;
const pollMs = 5;

export interface DockerExecTarget {
  engine: Engine;
  /** Id of the container. */
  container: string;
  /** `uid:gid` */
  user: string;
  workingDir: string;
  signaller: Signaller;
  /** For refusals that concern this sandbox. */
  handlers: RefusalHandlers<never>;
}

/**
 * Runs a command in a container over the engine's exec API. When a child keeps the output open
 * after the command ended, the engine ends the output two seconds later.
 */
export async function execInContainer(
  target: DockerExecTarget,
  command: ExecRequest,
): Promise<SandboxProcess> {
  const { engine, signaller, handlers } = target;
  const execKey = randomBytes(8).toString("hex");
  const tty = command.tty !== undefined;
  const env = [
    ...(tty ? ["TERM=xterm-256color"] : []),
    ...Object.entries(command.env ?? {}).map(([name, value]) => `${name}=${value}`),
    ...signaller.markerEnv(execKey),
  ];
  const ConsoleSize = command.tty && ([command.tty.rows, command.tty.cols] as [number, number]);
  const exec = await engine.request(
    "prepare a command",
    (abortSignal) =>
      engine.docker.getContainer(target.container).exec({
        ...{ Cmd: command.argv, Env: env, User: target.user, WorkingDir: command.cwd ?? target.workingDir },
        ...{ AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: tty, abortSignal },
        ...(ConsoleSize ? { ConsoleSize } : {}),
      }),
    handlers,
  );
  // Newer engines refuse a command that cannot run before any output.
  const refused: RefusalHandlers<string> = { 400: (message) => message, 500: (message) => message };
  const start = {
    hijack: true,
    stdin: true,
    Detach: false,
    Tty: tty,
    ...(ConsoleSize ? { ConsoleSize } : {}),
  };
  const socket = await engine.request(
    "run a command",
    async (signal) => {
      const connection = await exec.start(start);
      if (signal.aborted) connection.destroy();
      return connection;
    },
    { ...handlers, ...refused },
  );
  if (typeof socket === "string") return refusedProcess(socket);
  return await attach(target, exec, socket as Socket, command, execKey);
}

async function attach(
  target: DockerExecTarget,
  exec: Docker.Exec,
  socket: Socket,
  command: ExecRequest,
  execKey: string,
): Promise<SandboxProcess> {
  const { engine, signaller, container, user } = target;
  const tty = command.tty !== undefined;
  const sent = new Set<NodeJS.Signals>();
  let ended = false;
  let refusal = "";
  const { stdout, stderr } = demultiplex(socket, tty, (chunk) => {
    const text = refusal + chunk.toString("latin1");
    if (text.startsWith(refusalPrefix) && text.length <= maxRefusalBytes) {
      refusal = text;
      return true;
    }
    if (refusal) stdout.write(Buffer.from(refusal, "latin1"));
    refusal = "";
    return false;
  });

  // A broken connection ends the output; the engine still reports the exit code.
  socket.on("error", () => {});
  const closed = new Promise<void>((resolve) => {
    socket.once("end", resolve);
    socket.once("close", resolve);
  });
  const exit = (async (): Promise<ExitStatus> => {
    await closed;
    const info = await finalState(engine, exec);
    ended = true;
    const ran = refusal === "" || info === undefined || info.Pid > 0 || (info.ExitCode ?? 0) < 126;
    if (refusal) (ran || tty ? stdout : stderr).write(Buffer.from(refusal, "latin1"));
    stdout.end();
    stderr.end();
    socket.destroy();
    if (!ran) return { code: toRefusedExitCode(refusal), signal: null };
    return toExitStatus(info?.ExitCode ?? null, sent);
  })();

  let signals = Promise.resolve();
  const kill = (signal: NodeJS.Signals = "SIGKILL") => {
    if (ended) return;
    sent.add(signal);
    signals = signals
      .then(async () => {
        const info = await startedState(engine, exec);
        if (info?.Running) await signaller.signal({ container, user, pid: info.Pid, execKey }, signal);
      })
      .catch(() => {});
  };
  let sizes: Promise<unknown> = Promise.resolve();
  const resize = (cols: number, rows: number) => {
    if (!tty || ended) return sizes;
    sizes = sizes
      .then(() =>
        engine.request("resize a terminal", (abortSignal) => exec.resize({ w: cols, h: rows, abortSignal })),
      )
      .catch(() => {});
    return sizes;
  };
  // An older engine accepts a terminal's size only once the command runs.
  if (command.tty) await resize(command.tty.cols, command.tty.rows);
  return {
    stdin: createStdin(socket, tty),
    stdout,
    stderr,
    exit,
    kill,
    resize: (cols, rows) => void resize(cols, rows),
    leave: () => void socket.destroy(),
    ...(signaller instanceof DirectSignaller && {
      async unlockTerminal(fd: number, size: TtySize) {
        const { Pid = 0 } = (await startedState(engine, exec)) ?? {};
        return unlockProcessTerminal(Pid, fd, size, (pid) => isMember(pid, container));
      },
    }),
  };
}

/** The sending half of the connection. EOF is a control character on a terminal. */
function createStdin(socket: Socket, tty: boolean): Writable {
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
  // The command may end before all input is written.
  stdin.on("error", () => {});
  socket.once("close", () => stdin.destroy());
  return stdin;
}

/** The state of a command once it has started or ended; undefined when it is unknown. */
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
  const end = Date.now() + exitTimeoutMs;
  try {
    while (Date.now() < end) {
      const info = await engine.request(
        "inspect a command",
        (abortSignal) => exec.inspect({ abortSignal }),
        {},
        exitTimeoutMs,
      );
      if (reached(info)) return info;
      await delay(pollMs);
    }
  } catch {
    // The container or the engine is gone.
  }
  return undefined;
}

function refusedProcess(message: string): SandboxProcess {
  const stdin = new Writable({ write: (_chunk, _encoding, done) => done() });
  const exit = Promise.resolve({ code: toRefusedExitCode(message), signal: null });
  return {
    stdin,
    stdout: Readable.from([]),
    stderr: Readable.from([Buffer.from(`${getEngineMessage(new Error(message))}\n`)]),
    exit,
    kill: () => {},
    resize: () => {},
  };
}
