import { mkdirSync } from "node:fs";
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
import type { InjectedPath, LauncherSettings, LaunchRequest, LaunchResult } from "./launcher-messages.ts";
import { isCurrent } from "./turns.ts";

// The thread behind `Launcher`. Apart from waiting it only makes system calls of microseconds.
const settings = workerData as LauncherSettings;

/** `index=off`: layers change their positions. `userxattr`: all that a user namespace may use. */
const mountOptions = ["index=off", ...(settings.rootless ? ["userxattr"] : [])];

unshareMounts();
keepMountsHere();
changeFolder(settings.layers);

parentPort!.on("message", ({ number, request }: { number: number; request: LaunchRequest }) => {
  void launch(request).then((result) => parentPort!.postMessage({ number, result }));
});

async function launch(request: LaunchRequest): Promise<LaunchResult> {
  const { target, root } = request;
  try {
    requireTurn(request);
    mountRoot(request);
  } catch (error) {
    return { failed: "RootMountFailed", reason: errorText(error) };
  }
  try {
    if (request.injected.length > 0) inject(target, root, request.injected);
    requireTurn(request);
    return { code: await run(request) };
  } catch (error) {
    return { failed: "SandboxStartFailed", reason: errorText(error) };
  } finally {
    unmountRoot(request);
  }
}

function requireTurn({ turn }: LaunchRequest): void {
  if (!isCurrent(turn)) throw new Error("another start or end of the sandbox has begun");
}

/** Whoever has taken the turn away has removed the mount with its folder. */
function unmountRoot({ target, turn }: LaunchRequest): void {
  try {
    unmount(target);
  } catch (error) {
    if (isCurrent(turn)) throw error;
  }
}

/** Mounts with mapped owners end here, because the overlay has its own copies. */
function mountRoot({ target, lower, upper, work, setUserId, ownersNamespace }: LaunchRequest): void {
  const mapped: string[] = [];
  const mapOwners = (folder: string, options: { userNamespace: number; writable: boolean }): string => {
    const path = join(settings.mounts, String(mapped.length));
    mkdirSync(path, { recursive: true });
    mountIdMapped(folder, path, options);
    mapped.push(path);
    return path;
  };
  try {
    if (ownersNamespace !== undefined) {
      const files = mapOwners(settings.files, { userNamespace: ownersNamespace, writable: true });
      changeFolder(join(files, relative(settings.files, settings.layers)));
    }
    const layers = lower.map((layer) =>
      "path" in layer ? shortPath(layer.path) : mapOwners(layer.folder, { ...layer, writable: false }),
    );
    const overlay = { layers, upper: shortPath(upper), work: shortPath(work), setUserId };
    mountOverlay(target, overlay, mountOptions);
  } finally {
    changeFolder(settings.layers);
    for (const path of mapped) unmount(path);
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
        if (!one.optional) throw new Error(`${one.path}: ${errorText(cause)}`, { cause });
      }
    }
  } finally {
    folder.close();
  }
}

/** The path from the folder of the layers, which is the working folder during a mount. */
function shortPath(path: string): string {
  return relative(settings.layers, path);
}
