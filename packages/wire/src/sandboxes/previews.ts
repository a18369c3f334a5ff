import { type Static, Type } from "typebox";

/** Addresses under which a browser sees a port of a sandbox, each with a link token in it. */
export const PreviewLink = Type.Object({
  url: Type.String({
    description: "with a host name of its own where there is one, else the same as path_url",
  }),
  path_url: Type.String({ description: "under the server's own address" }),
  expires_at: Type.String({ format: "date-time", description: "until then the addresses can be opened" }),
});
export type PreviewLink = Static<typeof PreviewLink>;
