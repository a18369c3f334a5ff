import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { Sandbox } from "../../sandbox.ts";
import type { Overflow } from "./capture.ts";
import { quoteWord } from "./quote.ts";

/** Limit of a saved output, characters. */
export const maxSavedChars = 64 * 1024 * 1024;
/** Limit for writing the rest of a copy, ms. */
const saveTimeoutMs = 10_000;

/**
 * Streams an output into a new file `terminal_output_<hash8>.txt` in a folder of the sandbox.
 * `onFull` and `onDrained` pause and resume the source, so that memory stays bounded.
 */
export function openOverflowFile(
  sandbox: Sandbox,
  folder: string,
  onFull: () => void,
  onDrained: () => void,
): Overflow {
  const path = `${folder}/terminal_output_${randomBytes(4).toString("hex")}.txt`;
  const opened = sandbox.exec({
    argv: ["/bin/sh", "-c", `mkdir -p ${quoteWord(folder)} && exec cat > ${quoteWord(path)}`],
    cwd: "/",
  });
  let early: string[] = [];
  let failed = false;
  let written = 0;
  let complete = true;
  const fail = () => {
    failed = true;
    early = [];
    onDrained();
  };
  const send = (stdin: NodeJS.WritableStream, text: string) => {
    if (!failed && !stdin.write(text)) {
      onFull();
      stdin.once("drain", onDrained);
    }
  };
  const process = opened.then((started) => {
    started.stdin.on("error", fail);
    started.stdout.resume();
    started.stderr.resume();
    for (const text of early) send(started.stdin, text);
    early = [];
    return started;
  });
  let ready: Awaited<typeof process> | undefined;
  process.then((started) => {
    ready = started;
    onDrained();
  }, fail);
  return {
    write(text) {
      if (failed) return;
      if (written >= maxSavedChars) {
        complete = false;
        return;
      }
      written += text.length;
      if (ready) send(ready.stdin, text);
      else {
        early.push(text);
        onFull();
      }
    },
    async end() {
      try {
        const started = await process;
        started.stdin.end();
        // An ending stream emits no drain event.
        started.stdin.removeListener("drain", onDrained);
        onDrained();
        const timeout = AbortSignal.timeout(saveTimeoutMs);
        const exit = await Promise.race([started.exit, once(timeout, "abort")]);
        const saved = !failed && "code" in exit && exit.code === 0;
        if (!saved) started.kill();
        return saved ? { path, complete } : undefined;
      } catch {
        return undefined;
      }
    },
  };
}
