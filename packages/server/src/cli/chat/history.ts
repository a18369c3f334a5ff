import { mkdir, readFile, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { inertLine } from "../inert.ts";

/** Lines that are kept between sessions. */
const maxLines = 500;

function historyFile(): string {
  const state = process.env.XDG_STATE_HOME || join(homedir(), ".local/state");
  return join(state, "sandpiper", "history");
}

/** Lines of earlier sessions, the newest first, without those that would act on the terminal. */
export async function readHistory(): Promise<string[]> {
  const text = await readFile(historyFile(), "utf8").catch(() => "");
  const lines = text.split("\n").filter((line) => line !== "" && inertLine(line) === line);
  return lines.slice(0, maxLines);
}

/** Only this user may read it. A folder that cannot be written is no error. */
export async function writeHistory(lines: readonly string[]): Promise<void> {
  const file = historyFile();
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    await writeFile(file, `${lines.slice(0, maxLines).join("\n")}\n`, { mode: 0o600 });
  } catch {
    // The session goes on without history.
  }
}
