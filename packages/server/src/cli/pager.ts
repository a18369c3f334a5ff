import { spawn } from "node:child_process";
import { getInvoker } from "./invoker.ts";
import { pieces } from "./lines.ts";
import { asking } from "./signals.ts";

/** Leave and enter the second screen of the terminal. */
const enterScreen = "\x1b[?1049h";
const leaveScreen = "\x1b[?1049l";

/**
 * Shows lines on the terminal, with $PAGER or page by page, until the reader ends it. Throws
 * Interrupted after a signal.
 */
export async function page(lines: readonly string[]): Promise<void> {
  const program = process.env.PAGER?.trim();
  await asking(async (signal) => {
    if (!program || !(await runPager(program, lines, signal))) await showPages(lines, signal);
  });
}

/** Returns false when the program could not show the lines. */
function runPager(program: string, lines: readonly string[], signal: AbortSignal): Promise<boolean> {
  const user = getInvoker();
  const child = spawn("/bin/sh", ["-c", program], {
    stdio: ["pipe", 2, 2],
    ...(user && { uid: user.uid, gid: user.gid, env: { ...process.env, HOME: user.home } }),
  });
  // The reader may end the pager before it has read everything.
  child.stdin!.on("error", () => {});
  child.stdin!.end(`${lines.join("\n")}\n`);
  return new Promise((resolve) => {
    child.once("error", () => resolve(false));
    child.once("close", (code) => resolve(code === 0 || signal.aborted));
    signal.addEventListener("abort", () => child.kill(), { once: true });
  });
}

/** Pages with the keys of `more`: Space, Enter, b and q. */
async function showPages(long: readonly string[], signal: AbortSignal): Promise<void> {
  const { stdin, stderr } = process;
  const lines = long.flatMap((line) => foldStyled(line, stderr.columns || 80));
  const rows = Math.max((stderr.rows || 24) - 1, 2);
  const last = Math.max(lines.length - rows, 0);
  let top = 0;
  const draw = () => {
    const shown = lines.slice(top, top + rows);
    const place = `lines ${top + 1} to ${top + shown.length} of ${lines.length}`;
    const keys = "Space: next, b: back, q: end";
    stderr.write(`\x1b[2J\x1b[H${shown.join("\n")}\n`);
    stderr.write(`${place} (${keys})`.slice(0, (stderr.columns || 80) - 1));
  };
  stderr.write(enterScreen);
  stdin.setRawMode(true).resume();
  try {
    draw();
    await new Promise<void>((resolve) => {
      const end = () => {
        stdin.off("data", press);
        resolve();
      };
      signal.addEventListener("abort", end, { once: true });
      const press = (data: Buffer) => {
        for (const key of data.toString()) {
          if (key === "q" || key === "\x03" || key === "\x04") return end();
          if (key === " ") top = Math.min(top + rows, last);
          else if (key === "\r" || key === "j") top = Math.min(top + 1, last);
          else if (key === "b") top = Math.max(top - rows, 0);
          else if (key === "k") top = Math.max(top - 1, 0);
          else if (key === "G") top = last;
          else if (key === "g") top = 0;
        }
        draw();
      };
      stdin.on("data", press);
    });
  } finally {
    stdin.setRawMode(false).pause();
    stderr.write(leaveScreen);
  }
}

/** Folds a line whose whole text may have a style, so that each line is one row of the terminal. */
export function foldStyled(line: string, columns: number): string[] {
  const [, before = "", text = line, after = ""] =
    /^((?:\x1b\[[\d;]*m)*)([^\x1b]*)((?:\x1b\[[\d;]*m)*)$/.exec(line) ?? [];
  return pieces(text.replaceAll("\t", "    "), columns).map((piece) => before + piece + after);
}
