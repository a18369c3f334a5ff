import type { ExecRequest, ExitStatus, SandboxProcess } from "../../src/driver.ts";
import type { Sandbox } from "../../src/sandbox.ts";

/** A sandbox whose connections can be lost, as those of an engine behind a network can. */
export interface CuttableSandbox extends Sandbox {
  /** Loses the connections of all commands, with the bytes that nobody has read. */
  cut(): void;
}

/** Puts connections that can be lost between a sandbox and its user. */
export function makeCuttable(sandbox: Sandbox): CuttableSandbox {
  const cuts = new Set<() => void>();
  const exec = async (command: ExecRequest): Promise<SandboxProcess> => {
    const process = await sandbox.exec(command);
    const { promise: cut, resolve } = Promise.withResolvers<ExitStatus>();
    let isLost = false;
    const lose = () => {
      isLost = true;
      for (const stream of [process.stdin, process.stdout, process.stderr]) stream.destroy();
      process.leave?.();
      resolve({ code: null, signal: "SIGKILL" });
    };
    cuts.add(lose);
    void process.exit.then(() => cuts.delete(lose));
    return {
      stdin: process.stdin,
      stdout: process.stdout,
      stderr: process.stderr,
      exit: Promise.race([process.exit, cut]),
      get isLost() {
        return isLost;
      },
      kill: (signal) => process.kill(signal),
      resize: (cols, rows) => process.resize(cols, rows),
      ...(process.unlockTerminal && {
        unlockTerminal: (fd: number, size: { cols: number; rows: number }) =>
          process.unlockTerminal!(fd, size),
      }),
      leave: () => process.leave?.(),
    };
  };
  return {
    ...sandbox,
    exec,
    cut() {
      for (const lose of [...cuts]) lose();
      cuts.clear();
    },
  };
}
