import { describe, expect, test } from "vitest";
import { useArena } from "./arena.ts";

/** Attacks on the kernel: mounts, devices, processes, key rings, sockets, modules. */

const arena = useArena();

/** Errors that mean a refusal or a missing object; other errors may only mean bad arguments. */
const refused =
  /^(EPERM|EACCES|ENOSYS|EROFS|ENOENT|ESRCH|EAFNOSUPPORT|EPROTONOSUPPORT|ENOPROTOOPT|ENXIO|ENODEV|signal 31)$/;
/** The filter answers these calls like a kernel that lacks them. */
const alsoRefused = /^lock of a descriptor \d+ EINVAL$/;

describe.each(["agent", "root"])("the user %s", (user) => {
  test("gets out by no system call", async () => {
    const place = await arena.place(`?sandbox_spec_id=${user}`);
    const results: Record<string, string> = await place.attack("system_calls.py", String(process.pid));
    expect(Object.keys(results).length).toBeGreaterThan(200);
    const open = Object.entries(results).filter(
      ([name, result]) => !refused.test(result) && !alsoRefused.test(`${name} ${result}`),
    );
    expect(Object.fromEntries(open)).toEqual({});
  });

  test("can write no file of the kernel", async () => {
    const place = await arena.place(`?sandbox_spec_id=${user}`);
    const { opened, looked } = await place.attack("kernel_files.py");
    expect(looked).toBeGreaterThan(1_000);
    expect(opened).toEqual([]);
  });

  test("can write into no program that enters the sandbox from outside", async () => {
    const place = await arena.place(`?sandbox_spec_id=${user}`);
    let caught = false;
    const attack = place.attack("catch_runtime.py", "15").finally(() => {
      caught = true;
    });
    // A terminal comes from the runtime itself.
    const enter = async () => {
      while (!caught) await place.run(["true"], { tty: { cols: 80, rows: 24 } });
    };
    const [opened] = await Promise.all([attack, enter()]);
    expect(opened).toEqual([]);
  });
});
