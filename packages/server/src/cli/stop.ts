import { connect } from "./connect.ts";
import { describeStatus, findConversation, shortId } from "./conversations.ts";
import { inertLine } from "./inert.ts";

/** `sandpiper stop`: interrupts the model and the tools of conversations. */
export async function stop(ids: readonly string[]): Promise<void> {
  const { client, close } = await connect();
  try {
    for (const text of ids) {
      const conversation = await findConversation(client, text);
      const { id, execution_status } = conversation;
      if (execution_status === "running") await client.interrupt(id);
      const done = execution_status === "running" ? "is stopped" : `is ${describeStatus(conversation)}`;
      process.stdout.write(`${shortId(id)} ${done}.\n`);
    }
  } finally {
    await close();
  }
}

/** `sandpiper rm`: deletes conversations, and sandboxes that no other conversation uses. */
export async function remove(ids: readonly string[]): Promise<void> {
  const { client, close } = await connect();
  try {
    for (const text of ids) {
      const { id, title } = await findConversation(client, text);
      await client.json("DELETE", `/api/v1/app-conversations/${id}`);
      process.stdout.write(`Deleted ${shortId(id)} ${inertLine(title ?? "")}\n`);
    }
  } finally {
    await close();
  }
}
