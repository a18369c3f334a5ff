import { lstat, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Skill } from "../skill.ts";
import { isReadme, maxBytes, maxFileBytes } from "../skill-files.ts";
import { parseSkills, type SkillText } from "./files.ts";

const maxDepth = 4;
const maxEntries = 5_000;

/** Reads all Markdown files but READMEs, without links. Throws file system errors. */
export async function readSkillFolder(folder: string): Promise<Skill[]> {
  const files: SkillText[] = [];
  let bytes = 0;
  let entries = 0;
  const visit = async (path: string, depth: number): Promise<void> => {
    const found = await readdir(join(folder, path), { withFileTypes: true });
    for (const entry of found.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      entries += 1;
      if (entries > maxEntries || bytes > maxBytes || entry.name === ".git") return;
      const inner = path === "" ? entry.name : `${path}/${entry.name}`;
      if (entry.isDirectory() && depth < maxDepth) await visit(inner, depth + 1);
      if (!entry.isFile() || !/\.md$/i.test(entry.name) || isReadme(entry.name)) continue;
      const content = await readStart(join(folder, inner));
      bytes += content.length;
      files.push({ path: inner, content });
    }
  };
  await visit("", 0);
  return parseSkills(files, "global");
}

async function readStart(path: string): Promise<string> {
  const { size } = await lstat(path);
  const file = await open(path, "r");
  try {
    const buffer = Buffer.alloc(Math.min(size, maxFileBytes));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}
