import type { AppConversation } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { describeStatus } from "./conversations.ts";
import { formatTable } from "./table.ts";

test("cells and states of a hostile server are inert", () => {
  expect(
    formatTable([
      ["ID", "STATUS"],
      ["a\n", "\x1b]0;x\x07\u202e"],
    ]),
  ).toBe("ID   STATUS\na^J  ^[]0;x^G<U+202E>\n");
  const hostile = { execution_status: "\x1b[2J", sandbox_status: "RUNNING" } as unknown as AppConversation;
  expect(describeStatus(hostile)).toBe("^[[2J");
});
