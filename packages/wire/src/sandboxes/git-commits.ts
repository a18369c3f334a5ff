import { type Static, Type } from "typebox";

/** A commit of a repository in a sandbox (agent-server.md section 8). */
export const GitCommit = Type.Object({
  sha: Type.String(),
  short_sha: Type.String(),
  subject: Type.String(),
  author: Type.String(),
  timestamp: Type.String({ description: "when it was written: ISO-8601 with a zone" }),
});
export type GitCommit = Static<typeof GitCommit>;

/** The newest commits first. */
export const GitCommitsPage = Type.Object({ commits: Type.Array(GitCommit), has_more: Type.Boolean() });
