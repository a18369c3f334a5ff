/** What users and sandboxes may keep on the disk; 0: no limit. */
export interface SandboxQuotas {
  /** Files, folders and links of a sandbox. */
  files: number;
  /** Snapshots of a user. */
  snapshots: number;
  /** Sandboxes of a user in any state. */
  sandboxes: number;
  /** Bytes of all sandboxes of a user together. */
  userDiskBytes: number;
  /** Images that a user chose and that sandboxes and snapshots keep. */
  images: number;
}

export const noQuotas: SandboxQuotas = { files: 0, snapshots: 0, sandboxes: 0, userDiskBytes: 0, images: 0 };
