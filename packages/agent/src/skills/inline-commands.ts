import { errorText } from "@sandpiper/core/errors";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";

/** Commands of one text that are run; the others are left out. */
export const maxCommands = 20;

/** Limits: characters of an output, time for one and for all in ms. */
const maxOutput = 10_000;
const commandMs = 10_000;
const allMs = 30_000;

const inline = /!`([^`\n]{1,2000})`/g;

export interface InlineContext {
  sandbox(): Promise<Sandbox>;
  workingDir: string;
  signal: AbortSignal;
}

/**
 * Replaces each !`command` outside of fenced blocks by its output (agent-behaviour.md section 8),
 * or by an error line; runs the first `limit` of them. Throws only the signal's reason.
 */
export async function withCommandOutput(
  text: string,
  context: InlineContext,
  limit = maxCommands,
): Promise<string> {
  const deadline = performance.now() + allMs;
  let left = limit;
  const done: string[] = [];
  for (const { part, isFenced } of fencedParts(text)) {
    if (isFenced) {
      done.push(part);
      continue;
    }
    let at = 0;
    for (const match of part.matchAll(inline)) {
      const allowed = left-- > 0 && performance.now() < deadline;
      done.push(
        part.slice(at, match.index),
        allowed ? await output(match[1]!, context) : "[This command was not run.]",
      );
      at = match.index + match[0].length;
    }
    done.push(part.slice(at));
  }
  return done.join("");
}

/** The commands of a skill's text. */
export function inlineCommands(text: string): string[] {
  const open = [...fencedParts(text)].filter(({ isFenced }) => !isFenced);
  return open.flatMap(({ part }) => [...part.matchAll(inline)].map(([, command = ""]) => command));
}

/** The parts of a text inside and outside of fenced blocks; an open block reaches the end. */
function* fencedParts(text: string): Generator<{ part: string; isFenced: boolean }> {
  let isFenced = false;
  let from = 0;
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf("\n", at);
    const next = end < 0 ? text.length : end + 1;
    const line = text.slice(at, next).trim();
    if (isFenced ? line === "```" : line.startsWith("```")) {
      const cut = isFenced ? next : at;
      yield { part: text.slice(from, cut), isFenced };
      from = cut;
      isFenced = !isFenced;
    }
    at = next;
  }
  yield { part: text.slice(from), isFenced };
}

async function output(command: string, { sandbox, workingDir, signal }: InlineContext): Promise<string> {
  try {
    const place = await sandbox();
    const argv = ["sh", "-c", command];
    const options = { timeoutMs: commandMs, maxOutputBytes: 4 * maxOutput, signal };
    const { code, stdout, stderr, timedOut } = await runToEnd(place, { argv, cwd: workingDir }, options);
    const printed = stdout.toString().trim();
    const shown =
      printed.length > maxOutput ? `${printed.slice(0, maxOutput)}\n[The rest is left out.]` : printed;
    if (code === 0) return shown;
    const why = timedOut
      ? "took too long"
      : `ended with code ${code}: ${stderr.toString().trim().slice(-500)}`;
    return `${shown}${shown ? "\n" : ""}[The command ${why}]`;
  } catch (error) {
    signal.throwIfAborted();
    return `[The command could not be run: ${errorText(error)}]`;
  }
}
