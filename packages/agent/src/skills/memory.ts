import { trimTail } from "@sandpiper/core/trim";
import { type CommandRunner, runScript } from "@sandpiper/sandbox/files/files";
import { readRecords } from "./file-records.ts";

/** Characters of both memories; the oldest lines go first (agent-behaviour.md section 8). */
const maxMemory = 6_000;

/** Bytes read from the end of a file, and time in ms. */
const maxBytes = 64 * 1024;
const timeoutMs = 10_000;

/** Reads the end of the files, which is newest. Argument: the working folder. */
const readScript = `
for folder in "$HOME" "$1"; do
  file=$folder/.openhands/memory/MEMORY.md
  [ -n "$folder" ] && [ -f "$file" ] || continue
  size=$(tail -c ${maxBytes} <"$file" | wc -c) || continue
  [ "$folder" = "$HOME" ] && kind=user || kind=project
  printf "%s %s %s\\\\0" $kind $size "$file"
  tail -c ${maxBytes} <"$file" | head -c $size
  [ "$HOME" = "$1" ] && break
done
exit 0`;

/** Notes of earlier conversations. */
export interface Memory {
  notes: { path: string; text: string }[];
}

/** Reads MEMORY.md of the home and the working folder in one command. Throws what `exec` throws. */
export async function loadMemory(
  sandbox: CommandRunner,
  workingDir: string,
  signal?: AbortSignal,
): Promise<Memory> {
  const folder = trimTail(workingDir, "/") || "/";
  const { stdout } = await runScript(sandbox, readScript, [folder], {
    timeoutMs,
    maxOutputBytes: 3 * maxBytes,
    ...(signal && { signal }),
  });
  const files = readRecords(stdout).map(({ path, content }) => ({
    path,
    text: content.replaceAll("\0", "").trim(),
  }));
  return { notes: newest(files.filter(({ text }) => text !== "")) };
}

/** Keeps the newest lines; a short file leaves its share to the other. */
function newest(files: Memory["notes"]): Memory["notes"] {
  const share = Math.floor(maxMemory / Math.max(1, files.length));
  const spare = files.reduce((sum, { text }) => sum + Math.max(0, share - text.length), 0);
  return files.map(({ path, text }) => ({ path, text: lastLines(text, share + spare) }));
}

function lastLines(text: string, room: number): string {
  if (text.length <= room) return text;
  const tail = text.slice(-room);
  const end = tail.indexOf("\n");
  return end < 0 || end === tail.length - 1 ? tail : tail.slice(end + 1);
}

/** The prompt's block with the notes and how to keep them. */
export function memoryBlock({ notes }: Memory, workingDir: string): string {
  const folder = trimTail(workingDir, "/");
  const texts = notes.map(({ path, text }) => `[BEGIN ${path}]\n${text}\n[END ${path}]`);
  return `<MEMORY>
What earlier conversations noted. It may be out of date: check it where it matters.
Keep it when you learn something that later conversations need, one fact a line, the newest last: ${folder}/.openhands/memory/MEMORY.md for this project, ~/.openhands/memory/MEMORY.md for the user's ways of working. Correct what is wrong. Never note secrets.
${texts.length > 0 ? texts.join("\n") : "[Nothing is noted yet.]"}
</MEMORY>`;
}
