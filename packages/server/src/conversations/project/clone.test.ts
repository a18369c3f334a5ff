import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import type { NetworkProblem } from "@sandpiper/sandbox/network/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ServiceBench, sh } from "../../../test/support/sandbox-service.ts";
import { cloneRepository } from "./clone.ts";
import type { ProjectRepository } from "./repository.ts";

/** Failing clones in a real sandbox whose programs are replaced by each test. */

let bench: ServiceBench;
let sandbox: Sandbox;

beforeAll(async () => {
  bench = await new ServiceBench().open();
  const service = await bench.serve();
  sandbox = await service.running((await service.create("ann")).id);
});
afterAll(() => bench.end());

const repository: ProjectRepository = {
  fullName: "ann/tool",
  folder: "tool",
  provider: "github",
  host: "git.example",
  login: null,
  url: "https://git.example/ann/tool.git",
};

/** Clones with these programs and some of the sandbox. */
async function clone(
  name: string,
  programs: Record<string, string>,
  target = `/tmp/${name}/work/tool`,
  problems: NetworkProblem[] = [],
): Promise<void> {
  const folder = `/tmp/${name}/bin`;
  const own = "for one in sh mkdir ls rm rmdir mv sleep cat; do ln -sf $(command -v $one) .; done";
  await sh(sandbox, `mkdir -p ${folder} && cd ${folder} && ${own}`);
  for (const [program, text] of Object.entries(programs))
    await sh(
      sandbox,
      `cd ${folder} && printf '%s' '#!/bin/sh\n${text}\n' >${program} && chmod +x ${program}`,
    );
  const files: CommandRunner & Pick<Sandbox, "watchNetwork"> = {
    ...sandbox,
    watchNetwork: () => () => problems,
    // Not the resident one, which has programs of its own.
    shell: ["sh"],
    exec: (request) => sandbox.exec({ ...request, env: { ...request.env, PATH: folder } }),
  };
  const request = {
    repository,
    target,
    branch: null,
    newBranch: null,
    full: true,
    identity: { name: "a", email: "a@b" },
  };
  await cloneRepository(files, request, new AbortController().signal);
}

const failing = (message: RegExp) => ({ code: "RepositoryFailed", message: expect.stringMatching(message) });

test("an image without git fails the clone with a sentence that says so", async () => {
  await expect(clone("none", {})).rejects.toMatchObject(
    failing(/ann\/tool cannot be cloned: the sandbox's image has no git/),
  );
});

test("a clone that exceeds its time-out is killed and its partial folder removed", async () => {
  const programs = {
    // The time-out of a clone passes in one second.
    timeout: 'shift 3; "$@" & sleep 1; kill -9 $!; exit 137',
    git: 'for last; do :; done; mkdir -p "$last/.git"; exec sleep 60',
  };
  await expect(clone("slow", programs)).rejects.toMatchObject(
    failing(/took longer than 120 s; a shallow clone/),
  );
  expect(await sh(sandbox, "ls -A /tmp/slow/work")).toBe("");
});

test.each([
  [
    "asks",
    "could not read Username for https://git.example",
    /private and needs a github token in the settings/,
  ],
  ["missing", "remote: Repository not found.", /does not exist, or it is private/],
  [
    "policy",
    "CONNECT tunnel failed, response 403",
    /the network policy of the sandbox does not allow git\.example/,
  ],
  [
    "other",
    "fatal: unable to access https://me:pass@git.example/: no route",
    /could not be cloned: unable to access https:\/\/git\.example\/: no route\./,
  ],
])("a git error (%s) becomes a sentence without credentials", async (name, text, message) => {
  await expect(clone(name, { git: `echo "${text}" >&2; exit 128` })).rejects.toMatchObject(failing(message));
});

test("the reason of a clone that the network fails is what the proxy says, not its status", async () => {
  const said = (host: string, sentence: string) => ({ host, refused: false, sentence });
  const problems = [
    said("elsewhere.example", "The host elsewhere.example does not exist."),
    said("git.example", "git.example cannot be reached on port 443 (ECONNREFUSED)."),
  ];
  const git = 'echo "fatal: unable to access: CONNECT tunnel failed, response 502" >&2; exit 128';
  await expect(clone("gone", { git }, undefined, problems)).rejects.toMatchObject(
    failing(/^ann\/tool cannot be cloned: git\.example cannot be reached on port 443 \(ECONNREFUSED\)\.$/),
  );
  await expect(clone("unknown", { git })).rejects.toMatchObject(failing(/response 502\.$/));
});

test("a target folder with other files is left unchanged", async () => {
  await sh(sandbox, "mkdir -p /tmp/full/tool && echo mine >/tmp/full/tool/file");
  await expect(clone("busy", { git: "exit 0" }, "/tmp/full/tool")).rejects.toMatchObject(
    failing(/already contains something else/),
  );
  expect(await sh(sandbox, "cat /tmp/full/tool/file")).toBe("mine\n");
  await expect(clone("shut", { git: "exit 0" }, "/proc/none/tool")).rejects.toMatchObject(
    failing(/the parent folder of .* cannot be created/),
  );
});

test("a clone with a maximum size takes what is smaller, and leaves nothing of what is larger", async () => {
  const make =
    "cd /tmp && git init -q -b main big && cd big && head -c 3000 /dev/urandom >one && cp one two && git add . && git -c user.name=a -c user.email=a@b commit -q -m one";
  await sh(sandbox, make);
  const take = (maxBytes: number, target: string) =>
    cloneRepository(
      sandbox,
      {
        repository: { ...repository, url: "file:///tmp/big" },
        ...{ target, branch: null, newBranch: null, full: false, maxBytes },
        identity: { name: "a", email: "a@b" },
      },
      new AbortController().signal,
    );
  await take(2 ** 20, "/tmp/sized/whole");
  expect(await sh(sandbox, "cd /tmp/sized/whole && git status --short && ls")).toBe("one\ntwo\n");
  // The transfer is small, as the files are the same.
  await expect(take(5 * 1024, "/tmp/sized/files")).rejects.toMatchObject(failing(/has more than .* MiB/));
  await expect(take(1024, "/tmp/sized/transfer")).rejects.toMatchObject(failing(/has more than .* MiB/));
  expect(await sh(sandbox, "ls -A /tmp/sized")).toBe("whole\n");
});
