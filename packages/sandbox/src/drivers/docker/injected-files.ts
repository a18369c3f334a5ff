import { readFileSync } from "node:fs";
import { Header } from "tar";
import type { SandboxFile, StartRequest } from "../../driver.ts";
import type { Engine } from "./engine.ts";
import type { Tool } from "./tools.ts";

const block = 512;

/** A file or folder (without `content`) that is put into a container before it starts. */
interface Addition {
  path: string;
  mode: number;
  uid: number;
  gid: number;
  content?: Buffer;
}

/**
 * Puts into a new container what neither its image nor its configuration brings: the request's files, a working directory that belongs to the
 * sandbox's user, and the `tools` that cannot be bound. Makes no request when there is nothing to put.
 */
export async function putAdditions(
  engine: Engine,
  container: string,
  request: StartRequest,
  tools: Tool[],
): Promise<void> {
  const { files = [], spec } = request;
  const additions = files.map(fileAddition);
  for (const { source, destination } of tools) {
    additions.push({ path: destination, mode: 0o755, uid: 0, gid: 0, content: readFileSync(source) });
  }
  const folder = await workingFolder(engine, container, request);
  if (folder) additions.push({ path: spec.workingDir, ...folder });
  await put(engine, container, additions);
}

/** Puts files of root, readable by all, into a container that does not run. */
export async function putFiles(engine: Engine, container: string, files: SandboxFile[]): Promise<void> {
  await put(engine, container, files.map(fileAddition));
}

function fileAddition({ path, content }: SandboxFile): Addition {
  return { path, mode: 0o644, uid: 0, gid: 0, content: Buffer.from(content) };
}

async function put(engine: Engine, container: string, additions: Addition[]): Promise<void> {
  if (additions.length === 0) return;
  const archive = Buffer.concat([...additions.flatMap(entry), Buffer.alloc(2 * block)]);
  await engine.ask("put files into a sandbox", (abortSignal) =>
    engine.docker.getContainer(container).putArchive(archive, { path: "/", abortSignal }),
  );
}

/** What the working directory has to become, or undefined when the user can write there already. */
async function workingFolder(
  engine: Engine,
  container: string,
  { spec, snapshot }: StartRequest,
): Promise<Omit<Addition, "path"> | undefined> {
  const { uid, gid } = spec.user;
  // The engine itself makes a missing one for a first process, for root. A snapshot has it since its sandbox was new.
  if (snapshot !== undefined || spec.workingDir === "/" || spec.workingDir === spec.user.home)
    return undefined;
  const mode = await engine.ask(
    "look into a sandbox",
    async (abortSignal) => {
      const answer = await engine.docker
        .getContainer(container)
        .infoArchive({ path: spec.workingDir, abortSignal });
      answer.resume();
      const stat: unknown = JSON.parse(
        Buffer.from(String(answer.headers["x-docker-container-path-stat"]), "base64").toString("utf8"),
      );
      return (stat as { mode: number }).mode;
    },
    { 404: () => undefined },
  );
  // A folder that everybody may write to stays as it is, and so does a link.
  if (mode !== undefined && (uid === 0 || (mode & 0o002) !== 0 || !isFolder(mode))) return undefined;
  return { mode: mode === undefined ? 0o755 : mode & 0o777, uid, gid };
}

/** By Go's file mode bits. */
function isFolder(mode: number): boolean {
  return mode >= 2 ** 31;
}

/** The blocks of one tar entry. Folders on the way to it are made by the engine. */
function entry({ path, mode, uid, gid, content }: Addition): Buffer[] {
  const header = Buffer.alloc(block);
  const size = content?.length ?? 0;
  const type = content ? "File" : "Directory";
  new Header({
    path: path.slice(1) + (content ? "" : "/"),
    mode,
    uid,
    gid,
    size,
    mtime: new Date(),
    type,
  }).encode(header);
  const padding = Buffer.alloc((block - (size % block)) % block);
  return content ? [header, content, padding] : [header];
}
