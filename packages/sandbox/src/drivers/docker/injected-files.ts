import { readFileSync } from "node:fs";
import { Header } from "tar";
import type { SandboxFile, SandboxUser, StartRequest } from "../../driver.ts";
import { placeFile } from "../common/place-file.ts";
import type { Engine } from "./engine.ts";
import type { Program } from "./injected-programs.ts";

const blockBytes = 512;

/** A file, or a folder without `content`. */
interface InjectedPath {
  path: string;
  mode: number;
  uid: number;
  gid: number;
  content?: Buffer;
}

/**
 * Puts into a new container the request's files, a working directory of the sandbox's user, and the
 * `programs` that cannot be bound.
 */
export async function injectAll(
  engine: Engine,
  container: string,
  request: StartRequest,
  programs: Program[],
): Promise<void> {
  const { files = [], spec } = request;
  const injected = files.flatMap((file) => toInjectedPaths(file, spec.user));
  for (const { source, destination } of programs) {
    injected.push({ path: destination, mode: 0o755, uid: 0, gid: 0, content: readFileSync(source) });
  }
  const folder = await findWorkingDir(engine, container, request);
  if (folder) injected.push({ path: spec.workingDir, ...folder });
  await put(engine, container, injected);
}

/** Puts files of root, readable by all, into a stopped container. */
export async function injectFiles(
  engine: Engine,
  container: string,
  { files = [], spec }: StartRequest,
): Promise<void> {
  const injected = files.flatMap((file) => toInjectedPaths(file, spec.user));
  await put(engine, container, injected);
}

function toInjectedPaths(file: SandboxFile, user: SandboxUser): InjectedPath[] {
  const { path, folders } = placeFile(file, user);
  const { uid, gid } = user;
  return [
    ...folders.map((folder) => ({ path: folder, mode: 0o755, uid, gid })),
    { path, mode: 0o644, uid: 0, gid: 0, content: Buffer.from(file.content) },
  ];
}

async function put(engine: Engine, container: string, injected: InjectedPath[]): Promise<void> {
  if (injected.length === 0) return;
  const archive = Buffer.concat([...injected.flatMap(toTarEntry), Buffer.alloc(2 * blockBytes)]);
  await engine.request("put files into a sandbox", (abortSignal) =>
    engine.docker.getContainer(container).putArchive(archive, { path: "/", abortSignal }),
  );
}

/** The working directory to create; undefined when the user can already write there. */
async function findWorkingDir(
  engine: Engine,
  container: string,
  { spec, snapshot }: StartRequest,
): Promise<Omit<InjectedPath, "path"> | undefined> {
  const { uid, gid } = spec.user;
  // A snapshot has the directory since its sandbox was new.
  if (snapshot !== undefined || spec.workingDir === "/" || spec.workingDir === spec.user.home)
    return undefined;
  const mode = await engine.request(
    "inspect the files of a sandbox",
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
  // A world-writable folder and a link stay unchanged.
  if (mode !== undefined && (uid === 0 || (mode & 0o002) !== 0 || !isFolder(mode))) return undefined;
  return { mode: mode === undefined ? 0o755 : mode & 0o777, uid, gid };
}

/** Tests Go's file mode bits. */
function isFolder(mode: number): boolean {
  return mode >= 2 ** 31;
}

/** The blocks of one tar entry. The engine creates missing parents. */
function toTarEntry({ path, mode, uid, gid, content }: InjectedPath): Buffer[] {
  const header = Buffer.alloc(blockBytes);
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
  const padding = Buffer.alloc((blockBytes - (size % blockBytes)) % blockBytes);
  return content ? [header, content, padding] : [header];
}
