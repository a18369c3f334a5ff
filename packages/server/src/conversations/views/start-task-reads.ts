import type { AppConversationStartTask } from "@sandpiper/wire";
import type { StartTaskRow, StartTaskStore } from "../../store/start-task-store.ts";
import type { Conversations } from "../api.ts";
import { presentStartTask } from "./present.ts";

/** Start tasks as clients read them (app-server.md section 2.4). */
export function startTaskReads(tasks: StartTaskStore, publicUrl: () => string): Conversations["startTasks"] {
  const present = (row: StartTaskRow): AppConversationStartTask => presentStartTask(row, publicUrl());
  return {
    search(filter, page) {
      const { items, nextPageId } = tasks.search(filter, page);
      return { items: items.map(present), nextPageId };
    },
    count: (filter) => tasks.count(filter),
    batch: (userId, ids) =>
      ids.map((id) => {
        const row = id ? tasks.get(id) : undefined;
        return row?.userId === userId ? present(row) : null;
      }),
  };
}
