import { spawnSync } from "node:child_process";
import { release } from "node:os";
import { expect, test } from "vitest";

const [major, minor] = release().split(".").map(Number);
const namespacesHaveOwn = major! > 6 || (major === 6 && minor! >= 14);

/**
 * A namespace has its own highest process id since Linux 6.14; its first process may set it. Ids
 * below 300 are not used twice.
 */
const inFullNamespace = `
echo 400 >/proc/sys/kernel/pid_max
exec "$0" --input-type=module -e "$1"`;

const program = `
import { spawn } from "node:child_process";
import { spawnPiped } from ${JSON.stringify(new URL("./spawn.ts", import.meta.url).href)};
const held = [];
for (let free = true; free; ) {
  const child = spawn("sleep", ["60"], { stdio: "ignore" });
  child.on("error", () => {});
  free = child.pid !== undefined;
  if (free) held.push(child);
}
try {
  spawnPiped({ argv: ["true"], descriptors: ["null"] });
} catch (error) {
  console.log(error.code, error.message);
}
for (const child of held.splice(-20)) {
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("exit", resolve));
}
console.log(await spawnPiped({ argv: ["true"], descriptors: ["null"] }).exit);
process.exit();`;

// On older kernels the file is that of the machine.
test.runIf(namespacesHaveOwn)(
  "without process ids, a program says so; it starts again when some are free",
  () => {
    const { stdout, stderr } = spawnSync(
      "unshare",
      [
        ...["--pid", "--fork", "--kill-child", "--mount-proc"],
        "sh",
        "-c",
        inFullNamespace,
        process.execPath,
        program,
      ],
      { encoding: "utf8" },
    );
    expect({ stdout, stderr }).toEqual({
      stdout:
        "EAGAIN true cannot run, because no process ids are left on the machine (EAGAIN): end programs there, or raise kernel.pid_max\n0\n",
      stderr: "",
    });
  },
);
