import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { getInvoker } from "./invoker.ts";

test("the caller of sudo is found, with the home folder of the user database; other users are not", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sandpiper-test-"));
  const passwd = join(folder, "passwd");
  await writeFile(passwd, "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000:Ann:/home/ann:/bin/sh\n");
  const asRoot = process.getuid?.() === 0;
  expect(getInvoker({ SUDO_UID: "1000", SUDO_GID: "1000" }, passwd)).toEqual(
    asRoot ? { uid: 1000, gid: 1000, home: "/home/ann" } : undefined,
  );
  expect(getInvoker({ SUDO_UID: "1234", SUDO_GID: "1000" }, passwd)?.home).toBe(asRoot ? "/" : undefined);
  for (const env of [
    {},
    { SUDO_UID: "0", SUDO_GID: "0" },
    { SUDO_UID: "1000" },
    { SUDO_UID: "x", SUDO_GID: "1000" },
  ])
    expect(getInvoker(env, passwd)).toBeUndefined();
  await rm(folder, { recursive: true });
});
