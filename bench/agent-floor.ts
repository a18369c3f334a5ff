import { DatabaseSync } from "node:sqlite";

/**
 * The minimum cost of a step: a model call by plain fetch, its answer made durable in plain SQLite.
 * Arguments: file, URL, name, steps and bytes of a request.
 */
const [file = "", url = "", name = "", steps = "0", bytes = "0"] = process.argv.slice(2);
const database = new DatabaseSync(file);
database.exec(
  "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE events (key INTEGER PRIMARY KEY, json TEXT)",
);
const insert = database.prepare("INSERT INTO events (json) VALUES (?)");
const messages = [
  { role: "user", content: "x".repeat(Number(bytes)) },
  { role: "user", content: `bench-${name}:${steps};` },
];
const body = JSON.stringify({ model: "bench", stream: true, messages });
const headers = { "content-type": "application/json" };
for (let step = 0; step <= Number(steps); step++) {
  const response = await fetch(`${url}/chat/completions`, { method: "POST", headers, body });
  insert.run(await response.text());
}
process.disconnect?.();
