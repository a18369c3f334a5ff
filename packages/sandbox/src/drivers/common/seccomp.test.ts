import { expect, test } from "vitest";
import { makeSeccompSection, type SeccompProfile } from "./seccomp.ts";

const profile: SeccompProfile = {
  defaultAction: "SCMP_ACT_ERRNO",
  defaultErrnoRet: 38,
  syscalls: [
    {
      names: ["read", "clone", "clone3", "mount", "socketcall"],
      action: "SCMP_ACT_ALLOW",
      includes: {},
      excludes: {},
    },
    { names: ["chroot"], action: "SCMP_ACT_ALLOW", includes: { caps: ["CAP_SYS_CHROOT"] } },
    { names: ["chroot"], action: "SCMP_ACT_ERRNO", errnoRet: 1, excludes: { caps: ["CAP_SYS_CHROOT"] } },
    { names: ["bpf2"], action: "SCMP_ACT_ALLOW", includes: { caps: ["CAP_BPF"] } },
    { names: ["arch_prctl"], action: "SCMP_ACT_ALLOW", includes: { arches: ["amd64"] } },
    { names: ["cacheflush"], action: "SCMP_ACT_ALLOW", includes: { arches: ["arm64"] } },
    { names: ["odd"], action: "SCMP_ACT_ALLOW", excludes: { arches: ["amd64"] } },
  ],
};

function allowed(arch: string): string[] {
  const section = makeSeccompSection(profile, arch) as {
    syscalls: { names: string[]; action: string; args?: object[] }[];
  };
  return section.syscalls
    .filter(({ action, args }) => action === "SCMP_ACT_ALLOW" && !args?.length)
    .flatMap(({ names }) => names);
}

test("keeps the rules for processes with the usual capabilities on the architecture, without refused calls", () => {
  expect(allowed("x64")).toEqual(["read", "chroot", "arch_prctl"]);
  expect(allowed("arm64")).toEqual(["read", "chroot", "cacheflush", "odd"]);
  expect(makeSeccompSection(profile, "mips")).toBeUndefined();
});
