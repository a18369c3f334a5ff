import { expect, test } from "vitest";
import { run, type SuiteContext, suiteLimits } from "./context.ts";

/** The part of the driver suite about isolation. The tests of each driver go deeper. */
export function describeIsolation(context: SuiteContext): void {
  const inside = (command: string) => run(context.driver, "one", command);

  test("gives processes no capabilities, no new privileges and no unfiltered system calls", async () => {
    for (const file of ["/proc/self/status", "/proc/1/status"]) {
      const { out } = await inside(`cat ${file}`);
      expect(out.match(/^Cap\w+:\t0{16}$/gm), file).toHaveLength(5);
      expect(out).toMatch(/^NoNewPrivs:\t1$/m);
      expect(out).toMatch(/^Seccomp:\t2$/m);
    }
  });

  test("shows only its own processes, host name and loopback", async () => {
    const { out } = await inside("hostname; ls -d /proc/[0-9]* | wc -l");
    const [hostname, processes] = out.trim().split("\n");
    expect(hostname).toBe("one");
    expect(Number(processes)).toBeLessThan(20);
    if (context.showsMachine) return;
    const network = await inside(
      "tail -n +3 /proc/net/dev | tr -d ' ' | cut -d: -f1; tail -n +2 /proc/net/route | wc -l",
    );
    expect(network.out).toBe("lo\n0\n");
  });

  test("does not show the engine's socket, the machine's secrets or the server's environment", async () => {
    const paths = [
      "/var/run/docker.sock",
      "/run/docker.sock",
      "/run/containerd",
      "/etc/ssh",
      "/etc/machine-id",
      "/boot",
    ];
    const { out } = await inside(
      `for f in ${paths.join(" ")}; do [ -e $f ] && echo $f; done; cat /etc/shadow /proc/kcore /proc/keys 2>/dev/null | head -c 100; cat /proc/1/environ`,
    );
    expect(out).not.toMatch(/^\/|root:|SANDPIPER|VITEST/m);
    expect((await inside(`ls ${process.cwd()}`)).code).not.toBe(0);
  });

  test("shows nothing of the machine's hardware, disks and kernel, but what programs need", async () => {
    if (context.showsMachine) return;
    const files = "cmdline iomem ioports modules partitions diskstats swaps config.gz kallsyms interrupts";
    const folders = "firmware module block bus dev class/dmi devices/virtual/dmi devices/pci0000:00";
    const { out } = await inside(
      `cd /proc; cat ${files} bus/*/* fs/*/* driver/* tty/* pressure/* 2>/dev/null; cd /sys; ls -A ${folders} 2>/dev/null | grep -v ':$'`,
    );
    expect(out.trim()).toBe("");
    const needed = "head -qn1 /proc/cpuinfo /proc/meminfo /proc/stat /proc/loadavg";
    expect((await inside(`${needed}; ls /sys/devices/system/cpu`)).out).toMatch(
      /processor.*MemTotal.*cpu .*\bcpu0\b/s,
    );
  });

  test("refuses writes to files of other users", async () => {
    for (const path of [
      "/bin/x",
      "/etc/x",
      "/etc/passwd",
      "/x",
      "/run/init",
      "/sys/x",
      "/proc/sys/kernel/hostname",
      "/proc/sysrq-trigger",
    ]) {
      expect((await inside(`echo x >>${path}`)).code, path).not.toBe(0);
    }
    for (const path of [`${context.spec.workingDir}/x`, "/tmp/x", "/dev/shm/x"]) {
      expect((await inside(`echo x >>${path}`)).code, path).toBe(0);
    }
  });

  test("refuses mounts, namespaces, other roots and devices", async () => {
    const refused = [
      "mount -t tmpfs none /tmp",
      "mount --bind /tmp /home",
      "unshare -U true",
      "unshare -m true",
      "chroot /tmp true",
      "mknod /tmp/null c 1 3",
      "nsenter -t 1 -m true",
    ];
    for (const command of refused) {
      const { code, err } = await inside(command);
      expect({ command, failed: code !== 0, missing: /not found/.test(err) }).toEqual({
        command,
        failed: true,
        missing: false,
      });
    }
  });

  test("also refuses all of these to root", async () => {
    const root = { ...context.spec, user: { name: "root", uid: 0, gid: 0, home: "/root" } };
    await context.driver.start({ id: "root", spec: root });
    const asRoot = (command: string) => run(context.driver, "root", command);
    expect((await asRoot("id -u; grep CapEff /proc/self/status")).out).toBe("0\nCapEff:\t0000000000000000\n");
    for (const command of [
      ...[
        "mount -t tmpfs none /tmp",
        "mount -o remount,rw /sys",
        "umount /proc",
        "mknod /tmp/null c 1 3",
        "chroot /tmp true",
      ],
      ...[
        "unshare -m true",
        "echo x >/proc/sysrq-trigger",
        "hostname other",
        "ip link set lo down",
        "echo 1 >/proc/sys/kernel/sysrq",
      ],
      ...["mkdir /sys/fs/cgroup/memory/x", "echo x >/sys/fs/cgroup/memory/release_agent"],
    ]) {
      expect((await asRoot(command)).code, command).not.toBe(0);
    }
  });

  test("stops a fork bomb at the limit and stays usable", async () => {
    const { out } = await inside(`i=0; while [ $i -lt 200 ]; do sleep 1 & i=$((i+1)); done; echo all`);
    expect(out).not.toContain("all");
    await expect
      .poll(
        async () => (await inside("cat /proc/[0-9]*/comm | grep -c sleep").catch(() => ({ out: "" }))).out,
        {
          timeout: 12_000,
        },
      )
      .toBe("0\n");
  });

  test("ends a process that takes too much memory and stays usable", async () => {
    const hog = await inside(`exec dd if=/dev/zero of=/dev/null count=1 bs=${suiteLimits.memoryBytes * 4}`);
    expect(hog.code).toBe(context.memoryByProcess ? 1 : 137);
    expect(await inside("echo alive")).toMatchObject({ out: "alive\n" });
  });
}
