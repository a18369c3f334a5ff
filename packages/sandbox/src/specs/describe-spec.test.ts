import { expect, test } from "vitest";
import { describeSpec } from "./describe-spec.ts";
import { createHostSpec } from "./specs.ts";

const limits = { memoryBytes: 2 ** 30, pids: 100, cpus: 1, diskBytes: 2 ** 30, files: 1_000 };
const host = createHostSpec(limits);
const image = {
  ...host,
  root: { kind: "image" as const, reference: "docker.io/library/debian:12@sha256:4f53" },
};
const root = { name: "root", uid: 0, gid: 0, home: "/root" };

test("says which system it is and whether packages can be installed", () => {
  expect(describeSpec(host).slice(0, 2).join("\n")).toMatch(/^System: .*read-only\.\nPackages: .* cannot /);
  expect(describeSpec({ ...image, user: root }).slice(0, 2)).toEqual([
    "System: the image docker.io/library/debian:12.",
    "Packages: you are root and can install them with the system's package manager.",
  ]);
  expect(describeSpec(image)[1]).toContain("with sudo");
  expect(describeSpec({ ...image, user: root, capabilities: [] })[1]).toContain("cannot");
});

test("names the hosts that it reaches", () => {
  const allow = Array.from({ length: 40 }, (_, at) => ({ host: `h${at}.com`, ports: [443], methods: null }));
  const network = (mode: "none" | "open" | "allowlist", hosts = 2) => ({
    ...host,
    network: { mode, allow: allow.slice(0, hosts), credentials: [] },
  });
  expect(describeSpec(network("none"))[2]).toBe("Network: none.");
  expect(describeSpec(network("open"))[2]).toBe("Network: all public hosts.");
  expect(describeSpec(network("allowlist"))[2]).toBe("Network: only h0.com, h1.com.");
  expect(describeSpec(network("allowlist", 40))[2]).toMatch(/h29\.com and 10 more\.$/);
});
