import { stub } from "@sandpiper/core/test/support/stub";
import { expect, test } from "vitest";
import { ProjectContexts } from "./project-context.ts";

test("a read that began before a change does not bring back what the change replaced", async () => {
  let stored: unknown = { skills: [], notes: ["old"] };
  const { promise: mayAnswer, resolve: answer } = Promise.withResolvers<void>();
  let reads = 0;
  const contexts = new ProjectContexts(
    stub({
      async get() {
        const document = stored;
        if (++reads === 1) await mayAnswer;
        return { document, activated: [] };
      },
      async change<T>(_id: string, change: (document: unknown) => T, known: unknown) {
        const document = change(known ?? stored);
        stored = document;
        return document;
      },
    }),
  );
  const before = contexts.get("a");
  const changed = contexts.change("a", (context) => ({ ...context, notes: [...context.notes, "new"] }));
  await new Promise((resolve) => setImmediate(resolve));
  answer();
  expect((await before).notes).toEqual(["old"]);
  await changed;
  expect((await contexts.get("a")).notes).toEqual(["old", "new"]);
});
