import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { until } from "../support/platform.ts";

/** Descendant processes of this process: number -> command. */
export function descendants(): Map<number, string> {
  const parents = new Map<number, { parent: number; command: string }>();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const [, command = "", parent] =
        /\((.*)\) \S (\d+)/s.exec(readFileSync(`/proc/${name}/stat`, "utf8")) ?? [];
      parents.set(Number(name), { parent: Number(parent), command });
    } catch {
      // It has ended.
    }
  }
  const isOurs = (pid: number): boolean => {
    const parent = parents.get(pid)?.parent;
    return parent === process.pid || (parent !== undefined && parent > 1 && isOurs(parent));
  };
  return new Map([...parents].filter(([pid]) => isOurs(pid)).map(([pid, { command }]) => [pid, command]));
}

/** Records, folders and control groups that an engine still has without sandboxes and snapshots. */
export async function engineFiles(dataDir: string): Promise<string[]> {
  const engine = join(dataDir, "sandboxes");
  const group = `sandpiper-${createHash("sha256").update(realpathSync(engine)).digest("hex").slice(0, 12)}`;
  const list = (path: string) => (existsSync(path) ? readdirSync(path).map((name) => join(path, name)) : []);
  const folders = [
    ...["sandboxes", "snapshots", "trash"].map((name) => join(engine, name)),
    ...["boxes", "state"].map((name) => `/dev/shm/${group}-run/${name}`),
    ...list("/sys/fs/cgroup").map((controller) => join(controller, group)),
  ];
  // The kernel's own files of a control group are no group.
  const left = () =>
    folders
      .flatMap((folder) => list(folder))
      .filter((path) => !path.startsWith("/sys/") || /sbx-/.test(path));
  const end = performance.now() + 5_000;
  await until(() => left().length === 0 || performance.now() > end);
  return left().map((path) => `${path} of no sandbox`);
}

/** Files below a folder that hold one of these texts. */
export function filesWith(folder: string, texts: readonly string[]): string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const paths = files.map(({ parentPath, name }) => join(parentPath, name));
  return paths.filter((path) => {
    const bytes = readFileSync(path);
    return texts.some((text) => bytes.includes(text));
  });
}
