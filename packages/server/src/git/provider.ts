import type { Branch, Repository, SuggestedTask, UserGitInfo } from "@sandpiper/wire";
import type { BranchQuery, ListPage, RepositoryQuery } from "./api.ts";
import type { Connection } from "./connection.ts";

/** One provider with one user's token. Errors are those of `Connection`. */
export interface GitProvider {
  user(): Promise<UserGitInfo>;
  organizations(): Promise<string[]>;
  installations(): Promise<string[]>;
  repositories(ask: RepositoryQuery): Promise<ListPage<Repository>>;
  /** Throws RepositoryNotFound. */
  repository(name: string): Promise<Repository>;
  branches(ask: BranchQuery): Promise<ListPage<Branch>>;
  suggestedTasks(): Promise<SuggestedTask[]>;
  /** Files of a folder of the main branch, without its subfolders; empty where there is no such folder. */
  folder(repository: string, path: string): Promise<{ name: string; path: string }[]>;
  /** The time of the last commit that touched a path of the main branch, ISO-8601; undefined where there is none. */
  changedAt(repository: string, path: string): Promise<string | undefined>;
  /** The text of a file of the main branch; undefined where there is none. */
  file(repository: string, path: string): Promise<string | undefined>;
}

/** A service with all that differs from the others. */
export interface GitService {
  /** As people write it. */
  label: string;
  /** Where its API is; `origin` is that of the host, `https://git.example.com`. */
  api(origin: string, isPublic: boolean): string;
  /** Headers that show the token. */
  headers(token: string): Record<string, string>;
  connect(connection: Connection): GitProvider;
}
