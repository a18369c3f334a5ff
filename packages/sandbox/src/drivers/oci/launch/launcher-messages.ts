/** A lower layer: a path, or a root filesystem folder of the host whose owners are shifted. */
export type LowerLayer = { path: string } | { folder: string; userNamespace: number };

/** What the launcher's thread is asked to do. */
export interface LaunchRequest {
  /** Empty folder where the root filesystem appears for the start. */
  target: string;
  /** Read-only layers, uppermost first. */
  lower: LowerLayer[];
  upper: string;
  work: string;
  /** Written into the root filesystem before the start. */
  additions: Addition[];
  /** Owner of what is added, host ids. */
  root: { uid: number; gid: number };
  argv: string[];
  /** Takes what the command says, made anew. */
  outputFile: string;
  timeoutMs: number;
}

export type Addition =
  | {
      path: string;
      content: string /** A root filesystem that cannot hold it works without. */;
      optional: boolean;
    }
  /** A folder that is made where it is missing. */
  | { path: string; owner: { uid: number; gid: number }; mode: number };

/** `code` is 124 for a command that took too long. */
export type LaunchAnswer = { code: number } | { error: string };

export interface LauncherSettings {
  /** Paths of layers that lie in or beside it are given to the kernel in short. */
  layers: string;
  /** A folder on a tmpfs for the mounts of root filesystem folders. */
  folders: string;
  rootless: boolean;
}
