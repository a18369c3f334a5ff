import { type CallOptions, path } from "../connection.ts";
import type { ConversationHooks, ConversationSkills, GitChange, GitCommitsPage, GitDiff } from "../types.ts";
import { Group } from "./group.ts";

/** What `changes` and `diff` compare with: a commit or branch; by default the start of the work. */
export interface Comparison {
  ref?: string;
}

/** The project in a conversation's sandbox: its changes, files, skills and hooks. */
export class Project extends Group {
  /** The files that differ, below a folder. */
  changes(
    conversation: string,
    folder: string,
    comparison?: Comparison,
    options?: CallOptions,
  ): Promise<GitChange[]> {
    const query = { path: folder, ...comparison };
    return this.connection.get(path`/api/v1/app-conversations/${conversation}/git/changes`, query, options);
  }

  /** A file before and after. */
  diff(conversation: string, file: string, comparison?: Comparison, options?: CallOptions): Promise<GitDiff> {
    const query = { path: file, ...comparison };
    return this.connection.get(path`/api/v1/app-conversations/${conversation}/git/diff`, query, options);
  }

  /** The newest commits of the repository in a folder. */
  commits(
    conversation: string,
    folder: string,
    query?: { limit?: number },
    options?: CallOptions,
  ): Promise<GitCommitsPage> {
    const address = path`/api/conversations/${conversation}/git/commits`;
    return this.connection.get(address, { path: folder, ...query }, options);
  }

  /** The files that a commit changed. */
  commitChanges(
    conversation: string,
    folder: string,
    sha: string,
    options?: CallOptions,
  ): Promise<GitChange[]> {
    const address = path`/api/conversations/${conversation}/git/commits/${sha}/changes`;
    return this.connection.get(address, { path: folder }, options);
  }

  /** Up to 2,000 files below a folder, without those of tools; `after` continues behind a path. */
  files(
    conversation: string,
    query?: { path?: string; after?: string },
    options?: CallOptions,
  ): Promise<string[]> {
    return this.connection.get(path`/api/v1/app-conversations/${conversation}/files`, { ...query }, options);
  }

  /** The text of a file; empty when it cannot be read. */
  readFile(conversation: string, file: string, options?: CallOptions): Promise<string> {
    const address = path`/api/v1/app-conversations/${conversation}/file`;
    return this.connection.get(address, { file_path: file }, options);
  }

  skills(conversation: string, options?: CallOptions): Promise<ConversationSkills> {
    return this.connection.get(path`/api/v1/app-conversations/${conversation}/skills`, {}, options);
  }

  hooks(conversation: string, options?: CallOptions): Promise<ConversationHooks> {
    return this.connection.get(path`/api/v1/app-conversations/${conversation}/hooks`, {}, options);
  }
}
