import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { temporaryFolder } from "../../../test/support/store.ts";
import { openSqliteStore } from "../sqlite/open.ts";
import type { Vault } from "../vault.ts";
import { runKeyCommand } from "./key-command.ts";
import { openVaultOf } from "./open-vault.ts";

let dir: string;
let remove: () => void;
let key: Buffer;
beforeEach(() => {
  ({ dir, remove } = temporaryFolder());
  key = randomBytes(32);
});
afterEach(() => remove());

const open = (source: Parameters<typeof openVaultOf>[0]) =>
  openVaultOf(source, { dataDir: dir, create: true });
const fromFile = (path: string) => open({ from: "file", path });
const shell = (script: string) => ["/bin/sh", "-c", script];
const command = (script: string) => open({ from: "command", argv: shell(script) });

/** Whether both vaults have the same key. */
function agree(one: Vault, other: Vault): boolean {
  return Buffer.from(one.derive("test")).equals(Buffer.from(other.derive("test")));
}

async function failure(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toMatchObject({ code: "ConfigInvalid" });
  return (error as Error).message;
}

test("file, variable and command give the same vault, as bytes, base64 and hexadecimal text", async () => {
  const wanted = await open({ from: "variable", key });
  const file = join(dir, "given");
  const texts = [key, `${key.toString("base64")}\n`, key.toString("hex"), ` ${key.toString("base64url")} `];
  for (const text of texts) {
    writeFileSync(file, text, { mode: 0o600 });
    expect(agree(await fromFile(file), wanted)).toBe(true);
    expect(agree(await command(`cat ${file}`), wanted)).toBe(true);
  }
  expect(existsSync(join(dir, "vault.key"))).toBe(false);
  chmodSync(file, 0o440);
  expect(agree(await fromFile(file), wanted)).toBe(true);
});

test("a given file that is missing, exposed or no key is refused and never created", async () => {
  const file = join(dir, "given");
  expect(await failure(fromFile(file))).toMatch(/given \(SANDPIPER_VAULT_KEY_FILE\) does not exist/);
  expect(readdirSync(dir)).toEqual([]);
  writeFileSync(file, key, { mode: 0o600 });
  for (const mode of [0o604, 0o620, 0o602]) {
    chmodSync(file, mode);
    expect(await failure(fromFile(file))).toContain(`(mode 0${mode.toString(8)}): close it with chmod 600`);
  }
  chmodSync(file, 0o600);
  for (const content of ["", "short", key.subarray(1), `${key.toString("base64")}x`, "a".repeat(10_000)]) {
    writeFileSync(file, content);
    expect(await failure(fromFile(file))).toMatch(/contains no key/);
  }
  const folder = join(dir, "folder");
  mkdirSync(folder, { mode: 0o700 });
  expect(await failure(fromFile(folder))).toMatch(/contains no key/);
});

test("a command that fails is named with its exit code and messages, and what it printed is hidden", async () => {
  const secret = key.toString("base64");
  const said = await failure(command(`echo ${secret}; echo 'access denied for ${secret}' >&2; exit 3`));
  expect(said).toBe(
    "SANDPIPER_VAULT_KEY_COMMAND gives no key, because /bin/sh exited with 3: access denied for (hidden)",
  );
  expect(await failure(command("kill -TERM $$"))).toMatch(/was killed by SIGTERM$/);
  expect(await failure(open({ from: "command", argv: ["no-such-program"] }))).toMatch(
    /no-such-program .* cannot be started \(ENOENT\)/,
  );
  const invalid = await failure(command("echo my-password-is-long-enough; echo 'a hint' >&2"));
  expect(invalid).toMatch(/prints 27 bytes that are no key: .*: a hint$/);
  expect(invalid).not.toContain("my-password");
});

test("a command with endless output or messages is ended, with its children", async () => {
  const pids = join(dir, "pids");
  const message = await failure(command(`yes >&2 & echo $! >${pids}; yes`));
  expect(message).toMatch(/prints more than 1024 bytes/);
  await expect.poll(() => existsSync(`/proc/${readFileSync(pids, "utf8").trim()}`)).toBe(false);
  const long = await failure(command("seq 1 1000000 >&2; exit 1"));
  expect(long.length).toBeLessThan(700);
});

test("a command that does not end is killed after its time, also when only a child remains", async () => {
  const pids = join(dir, "pids");
  const script = `echo waiting for a token >&2; sleep 600 & echo $! >${pids}`;
  const message = await failure(runKeyCommand(shell(script), { timeoutMs: 500 }));
  expect(message).toMatch(/did not end within 0.5 seconds: waiting for a token$/);
  await expect.poll(() => existsSync(`/proc/${readFileSync(pids, "utf8").trim()}`)).toBe(false);
});

test("a command gets the environment without the variables of Sandpiper, and no shell reads it", async () => {
  process.env.SANDPIPER_API_KEY = "a-key-of-a-client";
  process.env.VAULT_TEST = "visible";
  try {
    const seen = join(dir, "seen");
    await command(`env >${seen}; head -c 32 /dev/zero`);
    const environment = readFileSync(seen, "utf8");
    expect(environment).toContain("VAULT_TEST=visible");
    expect(environment).not.toContain("SANDPIPER_");
    const argv = ["/bin/echo", "$(touch", `${join(dir, "made")})`];
    await failure(open({ from: "command", argv }));
    expect(existsSync(join(dir, "made"))).toBe(false);
  } finally {
    delete process.env.SANDPIPER_API_KEY;
    delete process.env.VAULT_TEST;
  }
});

test("a wrong key is refused with the source that it came from", async () => {
  const file = join(dir, "given");
  const store = (vault: Vault) => openSqliteStore({ dir, vault });
  await (await store(await open({ from: "variable", key: randomBytes(32) }))).close();
  writeFileSync(file, key, { mode: 0o600 });
  const refused = async (source: Parameters<typeof openVaultOf>[0], name: string) => {
    const message = await failure(store(await open(source)));
    expect(message).toContain(`${name} belongs to other data`);
    expect(message).not.toContain(key.toString("base64").slice(0, 20));
  };
  await refused({ from: "variable", key }, "the key of SANDPIPER_VAULT_KEY");
  await refused({ from: "file", path: file }, `the key file ${file} (SANDPIPER_VAULT_KEY_FILE)`);
  await refused(
    { from: "command", argv: ["cat", file] },
    "the key that cat prints (SANDPIPER_VAULT_KEY_COMMAND)",
  );
  await refused(undefined, `the key file ${join(dir, "vault.key")}`);
});
