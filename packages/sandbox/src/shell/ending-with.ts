import type { Sandbox } from "../sandbox.ts";

/** A handle of the same sandbox whose commands are killed when the signal is aborted. */
export function endingWith({ id, incarnation, spec, shell, exec }: Sandbox, signal: AbortSignal): Sandbox {
  return {
    ...{ id, incarnation, spec, shell },
    async exec(command) {
      signal.throwIfAborted();
      const process = await exec(command);
      const end = () => {
        process.kill();
        // Unread output would keep the pipe open and hide the exit.
        process.stdout.destroy();
      };
      signal.addEventListener("abort", end, { once: true });
      if (signal.aborted) end();
      void process.exit.then(() => signal.removeEventListener("abort", end));
      return process;
    },
  };
}
