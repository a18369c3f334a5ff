import { execFileSync } from "node:child_process";

/**
 * Switches the terminal to raw mode and returns the function that restores it; Node also restores
 * it at exit. `setRawMode` is only a fallback for systems without `stty`: it converts `\n` to
 * `\r\n`, which breaks full-screen programs.
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
