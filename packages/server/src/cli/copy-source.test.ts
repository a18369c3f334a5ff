import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { extract } from "tar";
import { afterEach, beforeEach, expect, test } from "vitest";
import { defaultCopyLimit } from "./copy-plan.ts";
import { openCopySource } from "./copy-source.ts";
import { packFolder } from "./tree.ts";

let base: string;
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper-source-"));
});
afterEach(() => rm(base, { recursive: true, force: true }));

async function write(files: Record<string, string>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(base, path)), { recursive: true });
    await writeFile(join(base, path), content);
  }
}
const shell = (script: string, cwd = base) =>
  execFileSync("sh", ["-ec", script], { cwd, encoding: "utf8", stdio: "pipe" });
const commit = "git init -q && git add -A && git -c user.name=t -c user.email=t@example.com commit -qm start";
const options = { secrets: false, limit: defaultCopyLimit, user: undefined };
const open = (folder: string, more = {}) => openCopySource(join(base, folder), { ...options, ...more });

test("secret files are left out and named, tracked ones are the project's", async () => {
  await write({
    "p/a.txt": "a",
    "p/.env": "KEY=1",
    "p/.env.example": "KEY=",
    "p/conf/.ssh/config": "x",
    "p/server.pem": "-----BEGIN RSA PRIVATE KEY-----",
    "p/ca.pem": "-----BEGIN CERTIFICATE-----",
    "p/.npmrc": "//registry.example/:_authToken=abc",
    "p/fixture/id_rsa": "key",
    "p/sub/.npmrc": "//registry.example/:_authToken=${TOKEN}",
  });
  shell("git init -q && git add fixture a.txt", join(base, "p"));
  const { includes, secrets } = await open("p");
  const left = [".env", ".npmrc", "conf/.ssh", "conf/.ssh/config", "server.pem"];
  expect(left.map(includes)).toEqual(left.map(() => false));
  const copied = ["a.txt", ".env.example", "ca.pem", "fixture/id_rsa", "sub/.npmrc", ".git/config"];
  expect(copied.map(includes)).toEqual(copied.map(() => true));
  expect(secrets).toContain(".env");
  expect((await open("p", { secrets: true })).includes(".env")).toBe(true);
});

test.each([
  ["web/.yarnrc.yml", "npmAuthToken: abc", 'npmAuthToken: "${TOKEN}"'],
  ["auth.json", '{"github-oauth": {"github.com": "abc"}}', "{}"],
  ["deploy/service-account.json", '{"type": "service_account", "private_key": "abc"}', '{"type": "x"}'],
  ["config/credentials.json", '{"installed": {"client_secret": "abc"}}', '{"client_id": "a"}'],
  ["ci/.docker/config.json", '{"auths": {"r.example": {"auth": "YTpi"}}}', '{"credsStore": "pass"}'],
  ["pip.conf", "index-url = https://me:abc@pip.example/simple", "index-url = https://pip.example/simple"],
  [".hg/hgrc", "[auth]\na.password = abc", "[paths]\ndefault = https://hg.example"],
])("%s is left out only if it holds a secret", async (path, secret, plain) => {
  await write({ [`p/${path}`]: secret, [`q/${path}`]: plain });
  expect((await open("p")).secrets).toEqual([path]);
  expect((await open("q")).secrets).toEqual([]);
});

test.each([".cargo/credentials.toml", ".kube/config", ".dev.vars", "terraform.tfstate.backup"])(
  "%s is left out",
  async (path) => {
    await write({ [`p/${path}`]: "x" });
    expect((await open("p")).secrets).toEqual([path]);
  },
);

test("no credential in git's files is copied, in worktrees and nested repositories neither", async () => {
  const token = "ghp_0123456789abcdef";
  await write({ "main/a.txt": "a\n", "main/sub/b.txt": "b\n", "main/.gitignore": "sub\nbare.git\n" });
  shell(commit, join(base, "main/sub"));
  shell(
    `${commit}; T=${token}
    git remote add origin https://x-access-token:$T@github.example/a/b.git
    git config http.https://github.example/.extraheader "AUTHORIZATION: basic $T"
    git config url.https://$T@github.example/.insteadOf https://github.example/
    git config credential.helper '!f() { echo password='$T'; }; f'
    printf '[gitlab] token = %s\\\n%s\n[alias]\n\tst = status \\\n -s\n' $T $T >> .git/config
    echo "https://u:$T@github.example" | tee .git/credentials > .git/.git-credentials
    printf 'x\t\tbranch of https://%s@github.example/a/b\n' $T > .git/FETCH_HEAD
    GIT_REFLOG_ACTION="pull https://$T@github.example/a" git -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m second
    git clone -q --bare . bare.git; git -C bare.git config remote.origin.url https://$T@github.example/
    git -C sub remote add origin https://$T@github.example/sub.git
    git worktree add -q ../tree -b topic`,
    join(base, "main"),
  );
  expect(shell(`grep -rl ${token} main tree | wc -l`).trim()).toBe("8");
  const copyOf = async (folder: string, more = {}) => {
    const copy = await mkdtemp(join(base, "copy-"));
    const { parts, notes, close } = await open(folder, more);
    for (const { from, to, includes } of parts) {
      await mkdir(join(copy, to), { recursive: true });
      await pipeline(packFolder(from, includes), extract({ cwd: join(copy, to) }));
    }
    await close();
    return { copy, notes };
  };
  for (const folder of ["main", "tree"]) {
    const { copy, notes } = await copyOf(folder);
    expect(shell(`grep -rl ${token} . || true`, copy), folder).toBe("");
    expect(notes.join()).toContain("Not copied: credentials in the files of git.");
    expect(shell("git remote get-url origin; git st; git log --format=%s", copy)).toBe(
      "https://github.example/a/b.git\nsecond\nstart\n",
    );
  }
  const { copy, notes } = await copyOf("main", { secrets: true });
  expect(shell("git remote get-url origin", copy)).toContain(token);
  expect(notes).toEqual([]);
});

test("a home folder is refused unless secrets are copied", async () => {
  const user = { uid: process.getuid!(), gid: process.getgid!(), home: join(base, "home") };
  await write({ "home/project/a": "a" });
  await expect(open("home", { user })).rejects.toThrow(/is a home folder .*--dir.*--secrets/);
  expect((await open("home/project", { user })).files).toBe(1);
});

test("ignored folders are copied unless the folder is over the limit; what is still too large is refused", async () => {
  await write({
    "p/.gitignore": "node_modules\n.venv\n",
    "p/a": "a",
    "p/.venv/x": "x",
    "p/node_modules/x": "x",
  });
  await truncate(join(base, "p/node_modules/x"), 900_000);
  shell("git init -q", join(base, "p"));
  expect((await open("p")).includes("node_modules/x")).toBe(true);
  const small = await open("p", { limit: 500_000 });
  expect([small.includes("node_modules/x"), small.includes(".venv/x")]).toEqual([false, true]);
  expect(small.notes.join()).toMatch(/larger than 488\.3 KB: node_modules\. --copy-limit/);
  await writeFile(join(base, "p/model.bin"), "");
  await truncate(join(base, "p/model.bin"), 700_000);
  await expect(open("p", { limit: 500_000 })).rejects.toThrow(/at most 488\.3 KB are copied.*model\.bin/);
  // Without git, the usual names count.
  await rm(join(base, "p/.git"), { recursive: true });
  expect((await open("p", { limit: 800_000 })).includes("node_modules/x")).toBe(false);
});

test("a worktree, a submodule and a subfolder become repositories in which git works", async () => {
  await write({ "main/sub/a.txt": "a\n", "main/b.txt": "b\n", "lib/c.txt": "c\n" });
  shell(commit, join(base, "lib"));
  shell(commit, join(base, "main"));
  shell("git -c protocol.file.allow=always submodule add -q ../lib lib", join(base, "main"));
  shell("git worktree add -q ../tree -b topic", join(base, "main"));
  const copies = {
    tree: "topic",
    "main/lib": shell("git rev-parse --abbrev-ref HEAD", join(base, "main/lib")).trim(),
  };
  for (const [folder, branch] of Object.entries(copies)) {
    const copy = await mkdtemp(join(base, "copy-"));
    const { parts, close } = await open(folder);
    for (const { from, to, includes } of parts) {
      await mkdir(join(copy, to), { recursive: true });
      await pipeline(packFolder(from, includes), extract({ cwd: join(copy, to) }));
    }
    await close();
    shell("rm -rf main-moved && mv main main-moved");
    expect(shell("git rev-parse --abbrev-ref HEAD && git status --porcelain", copy)).toBe(`${branch}\n`);
    shell("mv main-moved main");
  }
  const { root, place } = await open("main/sub");
  expect([root, place]).toEqual([join(base, "main"), expect.stringContaining("sub of the repository")]);
});
