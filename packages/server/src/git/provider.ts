import type { Branch, Repository, SuggestedTask, UserGitInfo } from "@sandpiper/wire";
import type { BranchQuery, ListPage, RepositoryQuery } from "./api.ts";
import type { Connection } from "./connection.ts";

/** A client of one provider with one user's token. Methods throw the errors of `Connection`. */
export interface GitProvider {
  user(): Promise<UserGitInfo>;
  organizations(): Promise<string[]>;
  installations(): Promise<string[]>;
  repositories(ask: RepositoryQuery): Promise<ListPage<Repository>>;
  /** Throws RepositoryNotFound. */
  repository(name: string): Promise<Repository>;
  branches(ask: BranchQuery): Promise<ListPage<Branch>>;
  suggestedTasks(): Promise<SuggestedTask[]>;
  /** Files of a folder of the main branch, without subfolders; empty when it does not exist. */
  folder(repository: string, path: string): Promise<{ name: string; path: string }[]>;
  /**
   * Time of the last commit that changed a path of the main branch, ISO 8601; undefined if none.
   */
  changedAt(repository: string, path: string): Promise<string | undefined>;
  /** The text of a file of the main branch; undefined if it does not exist. */
  file(repository: string, path: string): Promise<string | undefined>;
}

/** Definition of a provider. */
export interface GitService {
  /** Display name. */
  label: string;
  /** Base URL of the API; `origin` is the host's, such as `https://git.example.com`. */
  api(origin: string, isPublic: boolean): string;
  /** Headers with the token. */
  headers(token: string): Record<string, string>;
  connect(connection: Connection): GitProvider;
}
