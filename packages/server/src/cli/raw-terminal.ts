import { execFileSync } from "node:child_process";

/**
 * Has this process's terminal pass every key and every byte through unchanged, and gives the
 * function that puts it back. Node puts it back too where the process ends before. Its own
 * `setRawMode` still makes `\r\n` of every `\n`, which full-screen programs use to go down a line;
 * it is for systems without `stty`.
 */
export function rawTerminal(): () => void {
  try {
    const before = stty("-g").trim();
    stty("raw", "-echo");
    return () => void stty(before);
  } catch {
    process.stdin.setRawMode(true);
    return () => void process.stdin.setRawMode(false);
  }
}

function stty(...words: string[]): string {
  return execFileSync("stty", words, { stdio: ["inherit", "pipe", "ignore"], encoding: "utf8" });
}
