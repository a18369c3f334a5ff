import { type Static, Type } from "typebox";
import { Page, StringEnum } from "./schema.ts";

/** A name in a folder of a sandbox; an extension. A link is told as a link, with its own facts. */
export const FileEntry = Type.Object({
  name: Type.String(),
  kind: StringEnum(["file", "directory", "link", "other"]),
  size: Type.Integer({ description: "bytes" }),
  mode: Type.String({ description: "permission bits, octal", examples: ["0644"] }),
  modified_at: Type.String({ format: "date-time" }),
});
export type FileEntry = Static<typeof FileEntry>;

export const FilePage = Page(FileEntry);
