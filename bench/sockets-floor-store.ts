import { rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";

/**
 * A thread that makes texts durable in plain SQLite: one synced transaction per batch. Answers with
 * the batch size.
 */
const { dir } = workerData as { dir: string };
const port = parentPort as MessagePort;
const database = new DatabaseSync(`${dir}/plain.db`);
database.exec(
  "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE events (key INTEGER PRIMARY KEY, json TEXT)",
);
const insert = database.prepare("INSERT INTO events (json) VALUES (?)");
port.on("message", (first: string[] | "close") => {
  let stored = 0;
  database.exec("BEGIN IMMEDIATE");
  for (
    let next: string[] | "close" | undefined = first;
    next !== undefined;
    next = receiveMessageOnPort(port)?.message
  ) {
    if (next === "close") {
      database.exec("ROLLBACK");
      database.close();
      rmSync(dir, { recursive: true, force: true });
      process.exit();
    }
    for (const text of next) insert.run(text);
    stored += next.length;
  }
  database.exec("COMMIT");
  port.postMessage(stored);
});
