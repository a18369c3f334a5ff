import type { TurnFile } from "./turns.ts";

/** A lower layer: a path, or a folder of the host whose owners are mapped by a user namespace. */
export type LowerLayer = { path: string } | { folder: string; userNamespace: number };

export interface LaunchRequest {
  /** Empty folder where the root filesystem is mounted during the start. */
  target: string;
  /** Maps owners of layers on the disk to those that the sandbox sees; undefined: the same ids. */
  ownersNamespace: number | undefined;
  /** Read-only layers, uppermost first. */
  lower: LowerLayer[];
  upper: string;
  work: string;
  /** True when set-user-id programs have an effect. */
  setUserId: boolean;
  /** Written into the root filesystem before the start. */
  injected: InjectedPath[];
  /** Owner of injected files, host ids. */
  root: { uid: number; gid: number };
  argv: string[];
  /** Out-of-memory score of the command and its descendants. */
  oomScore: number;
  timeoutMs: number;
  /** Nothing is mounted or run once the turn of the start has been taken away. */
  turn: TurnFile;
}

/** A file, or a folder that is created when it is missing. An optional one may fail. */
export type InjectedPath = { path: string; optional?: boolean } & (
  | { content: string }
  | { owner: { uid: number; gid: number }; mode: number }
);

/** `code` is 124 for a command that timed out. */
export type LaunchResult =
  | { code: number }
  | { failed: "RootMountFailed" | "SandboxStartFailed"; reason: string };

export interface LauncherSettings {
  /** Folder of everything that layers consist of. */
  files: string;
  /** Folder of the layers in `files`; their paths are passed to the kernel relative to it. */
  layers: string;
  /** A folder on a tmpfs for mounts whose owners are mapped. */
  mounts: string;
  rootless: boolean;
}
