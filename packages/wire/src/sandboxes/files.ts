import { type Static, Type } from "typebox";
import { Page, StringEnum } from "../common/schema.ts";

/** An entry of a folder in a sandbox; an extension. A link is described itself, not its target. */
export const FileEntry = Type.Object({
  name: Type.String(),
  kind: StringEnum(["file", "directory", "link", "other"]),
  size: Type.Integer({ description: "bytes" }),
  mode: Type.String({ description: "permission bits, octal", examples: ["0644"] }),
  modified_at: Type.String({ format: "date-time" }),
});
export type FileEntry = Static<typeof FileEntry>;

export const FilePage = Page(FileEntry);

/** Answer of a form upload (agent-server-1.58.md section 4.1). */
export const FileUploaded = Type.Object({
  success: Type.Boolean(),
  file_size: Type.Integer({ minimum: 0, description: "bytes" }),
});

/** A folder in a list that lets people pick one (agent-server.md section 8). `path` is absolute. */
export const SubdirectoryEntry = Type.Object({ name: Type.String(), path: Type.String() });
export const SubdirectoryPage = Page(SubdirectoryEntry);

/** A shortcut of such a list. */
export const FileBrowserEntry = Type.Object({ label: Type.String(), path: Type.String() });

/**
 * Starting points of a folder picker: the user's home in the sandbox, its folders, and the root.
 */
export const HomeResponse = Type.Object({
  home: Type.String(),
  favorites: Type.Array(FileBrowserEntry),
  locations: Type.Array(FileBrowserEntry),
});
