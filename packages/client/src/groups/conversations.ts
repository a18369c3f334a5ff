import { type CallOptions, path } from "../connection.ts";
import { RequestError } from "../errors.ts";
import type { PageOf, PageQuery } from "../pages.ts";
import type {
  AppConversation,
  AppConversationStartRequest,
  AppConversationStartTask,
  AppConversationUpdateRequest,
  ConversationInfo,
  ForkConversationRequest,
  ModelCheckRequest,
  StartChildRequest,
  StartedChild,
  Success,
} from "../types.ts";
import { poll } from "../wait.ts";
import { first, Group } from "./group.ts";

const base = "/api/v1/app-conversations";
const tasks = `${base}/start-tasks`;

/** Which conversations a list or a count has. Times are ISO-8601. */
export interface ConversationFilter {
  title__contains?: string;
  created_at__gte?: string;
  created_at__lt?: string;
  updated_at__gte?: string;
  updated_at__lt?: string;
  sandbox_id__eq?: string;
}

export interface StartOptions {
  /** Called with each new state of the start. */
  onProgress?: (task: AppConversationStartTask) => void;
  signal?: AbortSignal | undefined;
}

/** A start that has succeeded. */
export type StartedConversation = AppConversationStartTask & {
  app_conversation_id: string;
  sandbox_id: string;
};

/** Conversations: starts, lists, changes and forks. `Runs` has what steers a running one. */
export class Conversations extends Group {
  /**
   * Starts a conversation and resolves when its agent has its task. Rejects with the code
   * `StartFailed` when the start fails. The signal ends the wait and not the start.
   */
  async start(
    request: AppConversationStartRequest,
    { onProgress, signal }: StartOptions = {},
  ): Promise<StartedConversation> {
    let task = await this.create(request, { signal });
    let shown = "";
    return poll(async () => {
      const state = `${task.status} ${task.detail}`;
      if (state !== shown) onProgress?.(task);
      shown = state;
      if (task.status === "ERROR") throw startFailed(task.detail || "The conversation could not be started.");
      if (task.status === "READY" && task.app_conversation_id) return task as StartedConversation;
      const now = await this.startTask(task.id, { signal });
      if (!now) throw startFailed("The start of the conversation disappeared.");
      task = now;
      return undefined;
    }, signal);
  }

  /** Begins to start a conversation; the answer is the start's first state. */
  create(request: AppConversationStartRequest, options?: CallOptions): Promise<AppConversationStartTask> {
    return this.connection.post(base, request, options);
  }

  /** A start; undefined when there is none with the id. */
  async startTask(id: string, options?: CallOptions): Promise<AppConversationStartTask | undefined> {
    return first(
      await this.connection.get<(AppConversationStartTask | null)[]>(tasks, { ids: [id] }, options),
    );
  }

  listStartTasks(
    query?: PageQuery & {
      conversation_id__eq?: string;
      created_at__gte?: string;
      sort_order?: "CREATED_AT" | "CREATED_AT_DESC" | "UPDATED_AT" | "UPDATED_AT_DESC";
    },
    options?: CallOptions,
  ): Promise<PageOf<AppConversationStartTask>> {
    return this.connection.get(`${tasks}/search`, { ...query }, options);
  }

  /** A page of conversations, those that changed last first. */
  list(
    query?: PageQuery & ConversationFilter & { include_sub_conversations?: boolean },
    options?: CallOptions,
  ): Promise<PageOf<AppConversation>> {
    return this.connection.get(`${base}/search`, { ...query }, options);
  }

  count(filter?: ConversationFilter, options?: CallOptions): Promise<number> {
    return this.connection.get(`${base}/count`, { ...filter }, options);
  }

  /** A conversation; undefined when there is none with the id. */
  async get(id: string, options?: CallOptions): Promise<AppConversation | undefined> {
    return first(await this.getMany([id], options));
  }

  /** Up to 100 conversations in the order of their ids; null for unknown ones. */
  getMany(ids: readonly string[], options?: CallOptions): Promise<(AppConversation | null)[]> {
    return this.connection.get(base, { ids }, options);
  }

  /** A conversation with its agent, workspace and state. */
  info(id: string, query?: { include_skills?: boolean }, options?: CallOptions): Promise<ConversationInfo> {
    return this.connection.get(path`/api/conversations/${id}`, { ...query }, options);
  }

  /** Changes the named fields; null clears one. */
  update(id: string, change: AppConversationUpdateRequest, options?: CallOptions): Promise<AppConversation> {
    return this.connection.json("PATCH", path`/api/v1/app-conversations/${id}`, { ...options, json: change });
  }

  /** Deletes a conversation with its log. */
  delete(id: string, options?: CallOptions): Promise<Success> {
    return this.connection.json("DELETE", path`/api/v1/app-conversations/${id}`, options);
  }

  /** A new conversation whose log begins with the events up to one of this conversation. */
  fork(id: string, request: ForkConversationRequest = {}, options?: CallOptions): Promise<ConversationInfo> {
    return this.connection.post(path`/api/conversations/${id}/fork`, request, options);
  }

  /** Starts a sub-conversation. */
  startChild(id: string, request: StartChildRequest, options?: CallOptions): Promise<StartedChild> {
    return this.connection.post(path`/api/conversations/${id}/children`, request, options);
  }

  /** Rejects when a new conversation could not call its model. */
  checkModel(request: ModelCheckRequest = {}, options?: CallOptions): Promise<Success> {
    return this.connection.post(`${base}/model-check`, request, options);
  }

  /** A conversation with its model calls, as lines of JSON. */
  recording(id: string, options?: CallOptions): Promise<ReadableStream<Uint8Array>> {
    return this.connection.stream(path`/api/v1/app-conversations/${id}/recording`, {}, options);
  }

  /** A conversation and its events as a zip file. */
  download(id: string, options?: CallOptions): Promise<ReadableStream<Uint8Array>> {
    return this.connection.stream(path`/api/v1/app-conversations/${id}/download`, {}, options);
  }
}

function startFailed(detail: string): RequestError {
  return new RequestError({ method: "GET", path: tasks, status: 0, code: "StartFailed", detail });
}
