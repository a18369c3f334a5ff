import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadSpecs } from "./load-specs.ts";

const limits = { memoryBytes: 2 ** 30, pids: 100, cpus: 1, diskBytes: 2 ** 30 };
const env = {
  HOME: "/nonexistent",
  PATH: "/nonexistent",
  PIP_INDEX_URL: "http://pip.example:8080/simple",
  GIT_TOKEN: "s3cret",
};

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "sandpiper-specs-"));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

function load(specs: unknown, specsFile?: string) {
  if (specs !== undefined) writeFileSync(specsFile ?? join(dataDir, "specs.json"), JSON.stringify({ specs }));
  return loadSpecs({ dataDir, specsFile, limits }, env);
}

test("without a file the only spec is the host, with the default allowlist", () => {
  const specs = load(undefined);
  expect(specs).toHaveLength(1);
  expect(specs[0]).toMatchObject({
    id: "host",
    root: { kind: "host" },
    user: { name: "agent", uid: 1000 },
    limits,
  });
  expect(specs[0]!.network).toMatchObject({ mode: "allowlist", credentials: [] });
  expect(specs[0]!.network.allow).toContainEqual({ host: "github.com", ports: [443], methods: null });
  expect(specs[0]!.network.allow).toContainEqual({ host: "pip.example", ports: [8080], methods: null });
});

test("the specs of a file keep their order, followed by the host", () => {
  const [full, folder, host] = load([
    {
      id: "python",
      image: "python:3.12",
      command: ["sleep", "infinity"],
      initial_env: { A: "1" },
      working_dir: "/src",
      user: 1000,
      limits: { memory: "512M", cpus: 0.5, pids: 64, disk: "1G" },
      network: {
        allow: [
          "Example.com",
          "*.example.org:8443",
          { host: "api.example.com", ports: [443], methods: ["get"] },
          "[2001:db8::1]:80",
        ],
        credentials: [{ name: "GITHUB_TOKEN", hosts: ["github.com"], from_env: "GIT_TOKEN" }],
        private: ["10.1.0.0/16"],
      },
    },
    { id: "folder", folder: "/srv/root", network: { mode: "none" } },
  ]);
  expect(full).toEqual({
    id: "python",
    root: { kind: "image", reference: "python:3.12" },
    command: ["sleep", "infinity"],
    env: { A: "1" },
    workingDir: "/src",
    user: "1000",
    limits: { memoryBytes: 2 ** 29, cpus: 0.5, pids: 64, diskBytes: 2 ** 30 },
    network: {
      mode: "allowlist",
      allow: [
        { host: "example.com", ports: [80, 443], methods: null },
        { host: "*.example.org", ports: [8443], methods: null },
        { host: "api.example.com", ports: [443], methods: ["GET"] },
        { host: "2001:db8::1", ports: [80], methods: null },
      ],
      credentials: [{ name: "GITHUB_TOKEN", hosts: ["github.com"], fromEnv: "GIT_TOKEN" }],
      private: ["10.1.0.0/16"],
    },
  });
  expect(folder).toEqual({
    id: "folder",
    root: { kind: "folder", path: "/srv/root" },
    command: null,
    env: {},
    workingDir: "/workspace/project",
    user: null,
    limits,
    network: { mode: "none", allow: [], credentials: [] },
  });
  expect(host!.id).toBe("host");
});

test("the file may define the host otherwise, and add to the default allowlist", () => {
  const specs = load([{ id: "host", user: "ann", network: { allow: ["defaults", "x.example"] } }]);
  expect(specs).toHaveLength(1);
  expect(specs[0]!.user).toEqual({ name: "ann", uid: 1000, gid: 1000, home: "/home/ann" });
  expect(specs[0]!.network.allow.map(({ host }) => host)).toEqual(
    expect.arrayContaining(["github.com", "pip.example", "x.example"]),
  );
});

test("default limits do not exceed the resources of the machine", () => {
  const [host] = loadSpecs(
    {
      dataDir,
      specsFile: undefined,
      limits: { memoryBytes: 2 ** 60, pids: 1e9, cpus: 1e6, diskBytes: 2 ** 60 },
    },
    env,
  );
  expect(host!.limits.memoryBytes).toBe(totalmem());
  expect(host!.limits.cpus).toBeLessThan(1e6);
  expect(host!.limits.pids).toBeLessThan(1e9);
  expect(host!.limits.diskBytes).toBeLessThan(2 ** 60);
});

const wrong: [string, unknown, string][] = [
  ["no list", {}, "specs must be a list."],
  ["an empty list", [], "specs must not be empty."],
  ["no id", [{}], "specs[0] lacks the field id"],
  ["an id with spaces", [{ id: "a b" }], "specs[0].id must be 1 to 255 letters"],
  ["an id twice", [{ id: "a" }, { id: "a" }], "specs[1].id is used twice"],
  ["an unknown field", [{ id: "a", immage: "x" }], "specs[0].immage is unknown; did you mean image?"],
  ["an unknown field below", [{ id: "a", limits: { rem: 1 } }], "specs[0].limits.rem is unknown"],
  [
    "a misspelt field below",
    [{ id: "a", limits: { memroy: 1 } }],
    "specs[0].limits.memroy is unknown; did you mean memory?",
  ],
  ["two roots", [{ id: "a", image: "x", folder: "/x" }], "specs[0] has both an image and a folder"],
  [
    "a number as rule",
    [{ id: "a", network: { allow: [5] } }],
    "specs[0].network.allow[0] must be a text or an object.",
  ],
  [
    "port 0",
    [{ id: "a", network: { allow: [{ host: "x", ports: [0] }] } }],
    "specs[0].network.allow[0].ports[0] must be >= 1.",
  ],
  ["a bad reference", [{ id: "a", image: "X Y" }], "specs[0].image is not valid: "],
  ["a relative folder", [{ id: "a", folder: "x" }], "specs[0].folder must be an absolute path."],
  ["a relative working folder", [{ id: "a", working_dir: "x" }], "specs[0].working_dir "],
  ["a text as command", [{ id: "a", command: "sleep 1" }], "specs[0].command must be null or a list."],
  [
    "a number in the environment",
    [{ id: "a", initial_env: { A: 1 } }],
    "specs[0].initial_env.A must be a text.",
  ],
  ["a bad variable", [{ id: "a", initial_env: { "A=B": "1" } }], "specs[0].initial_env.A=B is unknown"],
  ["a NUL", [{ id: "a", initial_env: { A: "\0" } }], "specs[0].initial_env.A "],
  ["a bad user of the host", [{ id: "a", user: "Ann Lee" }], "specs[0].user is not valid: "],
  ["a bad size", [{ id: "a", limits: { memory: "lots" } }], "specs[0].limits.memory must be a size"],
  ["too little memory", [{ id: "a", limits: { memory: "1M" } }], "specs[0].limits.memory must be a size"],
  [
    "too much memory",
    [{ id: "a", limits: { memory: "900T" } }],
    "specs[0].limits.memory is more than this machine has (",
  ],
  [
    "too many CPUs",
    [{ id: "a", limits: { cpus: 5000 } }],
    "specs[0].limits.cpus is more than this machine has (",
  ],
  [
    "too much disk",
    [{ id: "a", limits: { disk: "9000T" } }],
    "specs[0].limits.disk is more than this machine has (",
  ],
  [
    "a bad mode",
    [{ id: "a", network: { mode: "all" } }],
    "specs[0].network.mode must be one of none, allowlist, open",
  ],
  [
    "rules without use",
    [{ id: "a", network: { mode: "open", allow: ["x"] } }],
    "specs[0].network.allow has no meaning",
  ],
  [
    "a URL as rule",
    [{ id: "a", network: { allow: ["ok", "https://x.example/"] } }],
    "specs[0].network.allow[1] must be a host",
  ],
  [
    "a port out of range",
    [{ id: "a", network: { allow: ["x:99999"] } }],
    "specs[0].network.allow[0] must be a host",
  ],
  [
    "a star within",
    [{ id: "a", network: { allow: ["a.*.example"] } }],
    "specs[0].network.allow[0] must be a host",
  ],
  [
    "a missing secret",
    [{ id: "a", network: { credentials: [{ name: "T", hosts: ["x.example"], from_env: "NOT_SET" }] } }],
    "specs[0].network.credentials[0].from_env names NOT_SET, which",
  ],
  [
    "a port in a credential",
    [{ id: "a", network: { credentials: [{ name: "T", hosts: ["x.example:1"], from_env: "GIT_TOKEN" }] } }],
    "specs[0].network.credentials[0].hosts[0] must be a host",
  ],
  [
    "a bad range",
    [{ id: "a", network: { private: ["10.0.0.0"] } }],
    "specs[0].network.private[0] must be an address range",
  ],
];

test.each(wrong)("%s is refused with a sentence that names the field", (_, specs, sentence) => {
  expect(problem(() => load(specs))).toContain(`In the specs file ${dataDir}/specs.json, ${sentence}`);
});

test("a file that is missing, not JSON or not an object is refused", () => {
  const file = join(dataDir, "other.json");
  expect(problem(() => load(undefined, file))).toContain("cannot be read");
  for (const text of ["", "{", "[]", "null", "1", '{"specs":[{"id":"a"}],"more":1}']) {
    writeFileSync(file, text);
    expect(problem(() => load(undefined, file))).toContain(file);
  }
});

test("a file that is not JSON is refused with the line and the column, and without its text", () => {
  const file = join(dataDir, "specs.json");
  writeFileSync(file, '{"specs": [\n  {"id": "a", "image": secret}\n]}');
  const said = problem(() => load(undefined));
  expect(said).toContain(`${file} is not JSON: see line 2, column 24.`);
});

test("the docker driver needs an image for the default spec at the start", () => {
  const docker = (specs?: unknown) => {
    if (specs) writeFileSync(join(dataDir, "specs.json"), JSON.stringify({ specs }));
    return loadSpecs({ dataDir, specsFile: undefined, driver: "docker", limits }, env);
  };
  expect(problem(() => docker())).toMatch(/SANDPIPER_DRIVER=docker needs an image.*specs\.json/);
  expect(problem(() => docker([{ id: "a", root: "host" }]))).toMatch(/specs\[0\]/);
  expect(docker([{ id: "a", image: "debian:12" }])[0]).toMatchObject({ id: "a" });
});

function problem(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(PlatformError);
    expect(error).toMatchObject({
      code: "ConfigInvalid",
      message: expect.stringMatching(/^[^\n]{20,400}\.$/),
    });
    return (error as Error).message;
  }
  throw new Error("nothing was refused");
}
