import { mkdirSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { errorText } from "@sandpiper/core/errors";
import { changeFolder } from "../../../kernel/files.ts";
import { RootFolder } from "../../../kernel/files-in-root.ts";
import { mountIdMapped } from "../../../kernel/id-mapped.ts";
import { keepMountsHere, mountOverlay, unmount } from "../../../kernel/mounts.ts";
import { unshareMounts } from "../../../kernel/namespaces.ts";
import { spawnPiped } from "../../../kernel/spawn.ts";
import { sendSignal } from "../../common/processes.ts";
import type {
  InjectedPath,
  LauncherSettings,
  LaunchRequest,
  LaunchResult,
  LowerLayer,
} from "./launcher-messages.ts";

// The thread behind `Launcher`. Apart from waiting it only makes system calls of microseconds.
const settings = workerData as LauncherSettings;

/** `index=off`: layers change their positions. `userxattr`: all that a user namespace may use. */
const mountOptions = ["index=off", ...(settings.rootless ? ["userxattr"] : [])];

/** Mounts of root filesystem folders. */
const mounted = new Map<string, string>();

unshareMounts();
keepMountsHere();
changeFolder(settings.layers);

parentPort!.on("message", ({ number, request }: { number: number; request: LaunchRequest }) => {
  void launch(request).then((result) => parentPort!.postMessage({ number, result }));
});

async function launch(request: LaunchRequest): Promise<LaunchResult> {
  const { target, root } = request;
  try {
    const layers = request.lower.map(lowerPath);
    const overlay = { layers, upper: shortPath(request.upper), work: shortPath(request.work) };
    mountOverlay(target, overlay, mountOptions);
  } catch (error) {
    return { failed: "RootMountFailed", reason: errorText(error) };
  }
  try {
    if (request.injected.length > 0) inject(target, root, request.injected);
    return { code: await run(request) };
  } catch (error) {
    return { failed: "SandboxStartFailed", reason: errorText(error) };
  } finally {
    unmount(target);
  }
}

/** Kills a command that times out; the caller removes a container that it created nevertheless. */
function run({ argv, oomScore, timeoutMs }: LaunchRequest): Promise<number> {
  const { pid, exit } = spawnPiped({ argv, oomScore, descriptors: ["null", "null", "null"] });
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      sendSignal(-pid, "SIGKILL");
      resolve(124);
    }, timeoutMs);
    void exit.then((code) => {
      clearTimeout(timer);
      resolve(code);
    });
  });
}

function inject(target: string, owner: { uid: number; gid: number }, paths: InjectedPath[]): void {
  const folder = new RootFolder(target, owner);
  try {
    for (const one of paths) {
      try {
        if ("content" in one) folder.writeFile(one.path, one.content);
        else folder.makeFolder(one.path, one.owner, one.mode);
      } catch (cause) {
        if (!("content" in one) || !one.optional)
          throw new Error(`${one.path}: ${errorText(cause)}`, { cause });
      }
    }
  } finally {
    folder.close();
  }
}

function lowerPath(layer: LowerLayer): string {
  if ("path" in layer) return shortPath(layer.path);
  // The inode is part of the key, because the folder may be replaced by another of the same name.
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

/** The shorter of the absolute path and the path relative to this thread's folder. */
function shortPath(path: string): string {
  const short = relative(settings.layers, path);
  return short.length < path.length ? short : path;
}
