import type { PreparedSpec } from "../../driver.ts";

/** A folder of a pod that lies on a claim. */
export interface MountedFolder {
  path: string;
  /** Folder in the claim's volume; undefined: its root. */
  subPath?: string;
}

/**
 * Returns the folders of a sandbox that outlive its pod: the working folder and the user's home.
 */
export function chooseFolders({ workingDir, user }: PreparedSpec): MountedFolder[] {
  const folders: MountedFolder[] = workingDir === "/" ? [] : [{ path: workingDir, subPath: "work" }];
  const { home } = user;
  if (home !== "/" && home !== workingDir) folders.push({ path: home, subPath: "home" });
  return folders;
}
