import { contentText } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { runToEnd } from "../../src/shell/run.ts";
import { openTerminal } from "../../src/shell/terminal.ts";
import type { SuiteContext } from "./context.ts";

/** The part of the driver suite about held shells. */
export function describeHeldShells(context: SuiteContext): void {
  test("a command goes on without its server, and the next terminal gets all of its output", async () => {
    const { driver, spec } = context;
    const sandbox = {
      ...{ id: "one", incarnation: "1", spec, shell: driver.shell },
      exec: (command: Parameters<typeof driver.exec>[1]) => driver.exec("one", command),
    };
    const held = { folder: "/tmp/held", epoch: 1 };
    const command = "for i in 1 2 3 4 5 6 7 8 9; do echo line $i; sleep 0.2; done; (exit 3)";
    const action = { kind: "TerminalAction", command, is_input: false, reset: false } as const;
    const { signal } = new AbortController();
    const first = openTerminal(sandbox, { held });
    const begun = Promise.withResolvers<void>();
    const lost = first.run(action, signal, () => begun.resolve(), { id: "call1", isRepeated: false });
    lost.catch(() => {});
    await begun.promise;
    first.leave();
    const next = openTerminal(sandbox, { held });
    const call = { id: "call1", isRepeated: true };
    const { content, exit_code } = await next.run(action, signal, undefined, call);
    const whole = [1, 2, 3, 4, 5, 6, 7, 8, 9].map((number) => `line ${number}\n`).join("");
    expect({ text: contentText(content), exit_code }).toEqual({ text: whole, exit_code: 3 });
    await next.close();
    const { stdout } = await runToEnd(sandbox, { argv: ["sh", "-c", "ls -d /tmp/held 2>&1"] });
    expect(stdout.toString()).toMatch(/No such file/);
  });
}
