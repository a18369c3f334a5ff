import { mkdirSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { kill } from "node:process";
import { parentPort, workerData } from "node:worker_threads";
import { RootFolder } from "../../../kernel/files-in-root.ts";
import { changeFolder } from "../../../kernel/folder.ts";
import { mountIdMapped } from "../../../kernel/id-mapped.ts";
import { keepMountsHere, mountOverlay, unmount } from "../../../kernel/mounts.ts";
import { privateMounts } from "../../../kernel/namespaces.ts";
import { spawnDetached } from "../../../kernel/spawn.ts";
import type {
  Addition,
  LaunchAnswer,
  LauncherSettings,
  LaunchRequest,
  LowerLayer,
} from "./launcher-messages.ts";

/** The thread behind `Launcher`. Everything in it but the waiting is system calls of microseconds. */
const settings = workerData as LauncherSettings;

/** `index`: layers change places over the years, which the index would refuse. `userxattr`: all that a user namespace may use. */
const options = ["index=off", ...(settings.rootless ? ["userxattr"] : [])];

/** Where root filesystem folders are mounted already. */
const mounted = new Map<string, string>();

privateMounts();
keepMountsHere();
changeFolder(settings.layers);

parentPort!.on("message", ({ number, request }: { number: number; request: LaunchRequest }) => {
  void launch(request).then((answer) => parentPort!.postMessage({ number, answer }));
});

async function launch(request: LaunchRequest): Promise<LaunchAnswer> {
  const { target, root } = request;
  try {
    const layers = request.lower.map(lowerPath);
    mountOverlay(target, { layers, upper: short(request.upper), work: short(request.work) }, options);
  } catch (error) {
    return { error: `The root filesystem could not be mounted: ${text(error)}.` };
  }
  try {
    if (request.additions.length > 0) add(target, root, request.additions);
    return { code: await run(request) };
  } catch (error) {
    return { error: `The sandbox could not be started: ${text(error)}.` };
  } finally {
    unmount(target);
  }
}

/** A command that takes too long is killed; a container that it made in spite of that is left to whoever asked. */
function run({ argv, outputFile, timeoutMs }: LaunchRequest): Promise<number> {
  const { pid, exit } = spawnDetached({ argv, outputFile });
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      try {
        kill(-pid, "SIGKILL");
      } catch {
        // It has just ended.
      }
      resolve(124);
    }, timeoutMs);
    void exit.then((code) => {
      clearTimeout(timer);
      resolve(code);
    });
  });
}

function add(target: string, owner: { uid: number; gid: number }, additions: Addition[]): void {
  const folder = new RootFolder(target, owner);
  try {
    for (const addition of additions) {
      try {
        if ("content" in addition) folder.writeFile(addition.path, addition.content);
        else folder.makeFolder(addition.path, addition.owner, addition.mode);
      } catch (error) {
        if (!("content" in addition) || !addition.optional)
          throw new Error(`${addition.path}: ${text(error)}`, { cause: error });
      }
    }
  } finally {
    folder.close();
  }
}

function lowerPath(layer: LowerLayer): string {
  if ("path" in layer) return short(layer.path);
  // A folder that was replaced by another one of the same name is mounted anew.
  const { dev, ino } = statSync(layer.folder);
  const key = `${dev} ${ino} ${layer.folder}`;
  const known = mounted.get(key);
  if (known !== undefined) return known;
  const target = join(settings.folders, String(mounted.size));
  mkdirSync(target, { recursive: true });
  mountIdMapped(layer.folder, target, layer.userNamespace);
  mounted.set(key, target);
  return target;
}

/** The shorter one of the path and the way to it from this thread's folder. */
function short(path: string): string {
  const way = relative(settings.layers, path);
  return way.length < path.length ? way : path;
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
