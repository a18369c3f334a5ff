import { TerminalClient } from "../../support/terminal-client.ts";
import { type ActiveConversation, type NodesState, pause } from "./state.ts";

/** File of the sandbox to which the typed commands write. */
const file = "/tmp/typed";

/**
 * Types numbered lines into terminals of the conversation's sandbox until the signal, and opens
 * another terminal when one ends. Returns the problems: a line whose output a terminal has shown
 * and that the shell did not run, and a line that a shell ran twice.
 */
export async function typeInto(
  state: NodesState,
  { id, worker }: ActiveConversation,
  over: AbortSignal,
): Promise<string[]> {
  const { cluster } = state;
  const call = cluster.caller(worker.key);
  const [row] = await cluster.logs.query("SELECT sandbox_id AS box FROM conversations WHERE id = $1", id);
  if (!row) return [];
  const shown = new Set<number>();
  let number = 0;
  while (!over.aborted) {
    const server = { url: cluster.proxy.url, key: worker.key };
    const terminal = new TerminalClient(server, `/agent/${row.box}/sockets/terminal`);
    try {
      while (!over.aborted) {
        number += 1;
        terminal.type(`echo ${number} >> ${file}; echo did-$((${number} + 0)).\r`);
        await terminal.shows(new RegExp(`did-${number}\\.`));
        shown.add(number);
        state.typed += 1;
        await pause(300);
      }
    } catch {
      await pause(300);
    } finally {
      terminal.socket.terminate();
    }
  }
  const command = { command: `cat ${file}`, cwd: "/workspace" };
  for (const end = Date.now() + 60_000; Date.now() < end; await pause(500)) {
    const path = `/agent/${row.box}/api/bash/execute_bash_command`;
    const answer = await call("POST", path, command).catch(() => undefined);
    if (answer?.status !== 200 || answer.body.exit_code !== 0) continue;
    const lines = String(answer.body.stdout).trim().split("\n").map(Number);
    const twice = lines.filter((line, index) => lines.indexOf(line) < index);
    const lost = [...shown].filter((line) => !lines.includes(line));
    return [
      ...(twice.length > 0 ? [`typed lines were done twice: ${twice}`] : []),
      ...(lost.length > 0 ? [`typed lines were lost: ${lost}`] : []),
    ];
  }
  return shown.size === 0 ? [] : ["what was typed cannot be read"];
}
