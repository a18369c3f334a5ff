import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestDriver, run, testSpec, workingRuntimes } from "../../../test/support/oci.ts";
import type { PreparedSpec } from "../../driver.ts";
import { findBusybox } from "../common/busybox.ts";
import type { OciDriver } from "./oci-driver.ts";

const folder = mkdtempSync("/tmp/sandpiper-capabilities-");
const root = join(folder, "root");

/**
 * What the scripts of services do when they are installed: users, owners, modes and a first start.
 */
const postInstall = `#!/bin/sh -e
echo service:x:100:100::/var/lib/service:/bin/sh >>/etc/passwd
echo service:x:100: >>/etc/group
mkdir -p /var/lib/service && chown service /var/lib/service && chmod 700 /var/lib/service
su -s /bin/sh service -c 'echo started >/var/lib/service/log'
chmod 4755 /usr/bin/busybox-root
mkdir -p /jail/bin && cp /bin/busybox /jail/bin && chroot /jail /bin/busybox true
`;

beforeAll(() => {
  for (const path of ["bin", "etc", "usr/bin", "home/agent", "tmp", "var/lib/dpkg/info", "package/DEBIAN"])
    mkdirSync(join(root, path), { recursive: true });
  copyFileSync(findBusybox()!, join(root, "bin/busybox"));
  chmodSync(join(root, "bin/busybox"), 0o755);
  for (const name of "sh cat id dpkg su mkdir chown chmod chroot cp stat grep passwd".split(" "))
    symlinkSync("busybox", join(root, "bin", name));
  writeFileSync(
    join(root, "etc/passwd"),
    "root::0:0::/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n",
  );
  writeFileSync(join(root, "etc/group"), "root:x:0:\nagent:x:1000:\n");
  writeFileSync(join(root, "var/lib/dpkg/status"), "");
  const draft = join(folder, "package");
  mkdirSync(join(draft, "DEBIAN"), { recursive: true });
  mkdirSync(join(draft, "usr/bin"), { recursive: true });
  copyFileSync(findBusybox()!, join(draft, "usr/bin/busybox-root"));
  const control = "Package: service\nVersion: 1\nArchitecture: all\nMaintainer: none <none@example.com>\n";
  writeFileSync(join(draft, "DEBIAN/control"), `${control}Description: a service\n`);
  writeFileSync(join(draft, "DEBIAN/postinst"), postInstall, { mode: 0o755 });
  execFileSync("dpkg-deb", ["--root-owner-group", "-Zgzip", "-b", draft, join(root, "service.deb")]);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(await workingRuntimes())("capabilities in a sandbox of %s", (runtime) => {
  let driver: OciDriver;
  let end: () => Promise<void>;
  const spec: PreparedSpec = { ...testSpec, root: { kind: "folder", path: root } };
  const asRoot = { ...spec, user: { name: "root", uid: 0, gid: 0, home: "/root" } };

  beforeAll(async () => {
    ({ driver, end } = await openTestDriver(runtime));
    await Promise.all([
      driver.start({ id: "root", spec: asRoot }),
      driver.start({ id: "none", spec: { ...asRoot, capabilities: [] } }),
    ]);
  });
  afterAll(() => end());

  test("root installs a package that makes users, changes owners and starts as another user", async () => {
    // The runtime runs the first command, a warm shell later ones.
    await run(driver, "root", "true");
    expect(await run(driver, "root", "dpkg -i /service.deb")).toMatchObject({ code: 0 });
    const { out } = await run(driver, "root", "cat /var/lib/service/log; stat -c %U /var/lib/service");
    expect(out).toBe("started\nservice\n");
    await driver.snapshot("root", "installed");
    await driver.start({ id: "agent", spec, snapshot: "installed" });
    const user = await run(
      driver,
      "agent",
      "id -u; /usr/bin/busybox-root su -c 'id -u'; grep CapEff /proc/self/status",
    );
    expect(user.out).toBe("1000\n0\nCapEff:\t0000000000000000\n");
    await driver.start({ id: "root", spec: asRoot });
  });

  test("a spec can take them away, from set-user-id programs too", async () => {
    expect((await run(driver, "none", "dpkg -i /service.deb")).code).not.toBe(0);
    await driver.start({ id: "weak", spec: { ...spec, capabilities: [] }, snapshot: "installed" });
    const { out } = await run(
      driver,
      "weak",
      "/usr/bin/busybox-root su -c 'id -u'; grep -E 'CapBnd|NoNew' /proc/self/status",
    );
    expect(out).toBe("CapBnd:\t0000000000000000\nNoNewPrivs:\t1\n");
  });

  test("root gets nothing of the machine with them", async () => {
    const attempts = [
      "mount -t tmpfs none /tmp",
      "umount /proc",
      "unshare -m true",
      "mknod /null c 1 3",
      "hostname other",
      "echo x >/proc/sysrq-trigger",
      "echo 1 >/proc/sys/kernel/sysrq",
      "echo x >/etc/hosts",
      "chown 1:1 /etc/hosts",
      "chmod 666 /dev/null",
      "chown 1:1 /proc/1/fd/0",
      "chown 1:1 /run/sandpiper/busybox",
      "kill -9 1 && sleep 1 && kill -0 1 && false",
      "ip link set lo down",
      "dd if=/proc/kcore of=/tmp/x count=1 && [ -s /tmp/x ]",
      "setpriv --bounding-set +sys_admin true",
    ];
    for (const command of attempts) {
      const { code } = await run(driver, "root", { argv: [...driver.shell!, "-c", command] });
      expect(code, command).not.toBe(0);
    }
    const { out } = await run(
      driver,
      "root",
      "grep -E 'CapEff|CapBnd' /proc/self/status; cat /proc/1/status",
    );
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE,
    // SYS_CHROOT and SETFCAP.
    expect(out).toMatch(/^CapEff:\t00000000800405fb\nCapBnd:\t00000000800405fb\n/);
    expect(out.match(/CapBnd:\t0{16}\n/)).not.toBeNull();
  });
});
