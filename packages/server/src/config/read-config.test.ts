import { readFile } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import fc from "fast-check";
import { expect, test } from "vitest";
import { formatVariablesHelp, formatVariablesMarkdown } from "./documentation.ts";
import { listUnknownVariables, readConfig } from "./read-config.ts";
import { variables } from "./variables.ts";

test("an empty environment gives the documented defaults", () => {
  expect(readConfig({ HOME: "/home/ann" })).toEqual({
    host: "127.0.0.1",
    port: 3000,
    dataDir: "/home/ann/.local/share/sandpiper",
    vaultKey: undefined,
    node: { url: undefined, lostAfterMs: 60_000 },
    blobs: undefined,
    apiKey: undefined,
    publicUrl: undefined,
    driver: "oci",
    specsFile: undefined,
    registryAuth: undefined,
    registries: undefined,
    dockerHost: undefined,
    kubernetes: {
      kubeconfig: undefined,
      namespace: undefined,
      installation: undefined,
      runtimeClass: undefined,
      storageClass: undefined,
      pullSecrets: [],
      warmPods: 0,
      userNamespaces: true,
      kind: "auto",
    },
    runtime: undefined,
    bodyLimit: 16_777_216,
    logLevel: "info",
    limits: { memoryBytes: 2_147_483_648, pids: 1024, cpus: 2, diskBytes: 10_737_418_240 },
    sandboxQuotas: { files: 1_000_000, snapshots: 100, sandboxes: 2_000, userDiskBytes: 0, images: 20 },
    maxImageBytes: 20 * 2 ** 30,
    storageQuotas: { conversationBytes: 2 ** 30, userBytes: 20 * 2 ** 30 },
    idlePauseMs: 1_200_000,
    hibernateAfterMs: 600_000,
    deleteAfterMs: 864_000_000,
    maxSandboxes: 0,
    maxRuns: 100,
    dailyBudget: 0,
    maxRequests: 1_000,
    trustedProxies: [],
    outboundPrivate: [],
    packageMirrors: {},
    skillsDir: undefined,
    webhook: undefined,
    corsOrigins: [],
  });
  expect(readConfig({ HOME: "/home/ann", XDG_DATA_HOME: "/data" }).dataDir).toBe("/data/sandpiper");
  expect(readConfig({ HOME: "/home/ann", SANDPIPER_PORT: "", SANDPIPER_CORS_ORIGINS: " " })).toEqual(
    readConfig({ HOME: "/home/ann" }),
  );
});

/** Only one source of the vault's key may be set. */
const otherKeySources = ["SANDPIPER_VAULT_KEY", "SANDPIPER_VAULT_KEY_COMMAND", "SANDPIPER_DATABASE_URL"];

test("every variable is read", () => {
  const env = {
    SANDPIPER_VAULT_KEY_FILE: "keys/vault",
    SANDPIPER_DATABASE_URL_FILE: "keys/database",
    SANDPIPER_NODE_URL: "http://10.0.0.5:3000/",
    SANDPIPER_NODE_LOST_AFTER: "30",
    SANDPIPER_BLOBS: "s3://team-blobs/one/two",
    SANDPIPER_BLOBS_ENDPOINT: "https://s3.example.com/",
    SANDPIPER_BLOBS_REGION: "eu-central-1",
    SANDPIPER_BLOBS_CREDENTIALS: "keys/s3",
    SANDPIPER_HOST: "::1",
    SANDPIPER_PORT: "0",
    SANDPIPER_DATA: "/srv/data",
    SANDPIPER_API_KEY: "0123456789abcdef",
    SANDPIPER_PUBLIC_URL: "https://example.com/sandpiper/",
    SANDPIPER_DRIVER: "docker",
    SANDPIPER_SPECS: "specs.json",
    SANDPIPER_REGISTRY_AUTH: "/etc/sandpiper/auth.json",
    SANDPIPER_DOCKER_HOST: "tcp://[::1]:2375",
    SANDPIPER_KUBECONFIG: "/etc/sandpiper/kubeconfig",
    SANDPIPER_KUBERNETES_NAMESPACE: "sandboxes",
    SANDPIPER_KUBERNETES_INSTALLATION: "team1",
    SANDPIPER_KUBERNETES_KIND: "sandbox",
    SANDPIPER_KUBERNETES_RUNTIME_CLASS: "gvisor",
    SANDPIPER_KUBERNETES_STORAGE_CLASS: "fast.example",
    SANDPIPER_KUBERNETES_PULL_SECRETS: "first, second",
    SANDPIPER_KUBERNETES_WARM_PODS: "3",
    SANDPIPER_KUBERNETES_USER_NAMESPACES: "off",
    SANDPIPER_RUNTIME: "/usr/bin/crun",
    SANDPIPER_BODY_LIMIT: "1M",
    SANDPIPER_LOG_LEVEL: "debug",
    SANDPIPER_MEMORY: "512MiB",
    SANDPIPER_PIDS: "100",
    SANDPIPER_CPUS: "0.5",
    SANDPIPER_DISK: "1T",
    SANDPIPER_FILES: "500",
    SANDPIPER_CONVERSATION_STORAGE: "4M",
    SANDPIPER_USER_STORAGE: "0",
    SANDPIPER_USER_DISK: "1G",
    SANDPIPER_MAX_IMAGE: "30G",
    SANDPIPER_MAX_SNAPSHOTS: "6",
    SANDPIPER_MAX_IMAGES: "4",
    SANDPIPER_MAX_KEPT_SANDBOXES: "0",
    SANDPIPER_IDLE_PAUSE: "60",
    SANDPIPER_HIBERNATE_AFTER: "0",
    SANDPIPER_DELETE_AFTER: "365",
    SANDPIPER_MAX_SANDBOXES: "5",
    SANDPIPER_MAX_RUNS: "3",
    SANDPIPER_DAILY_BUDGET: "12.50",
    SANDPIPER_MAX_REQUESTS: "50",
    SANDPIPER_TRUSTED_PROXIES: "10.1.0.0/16,127.0.0.1/32",
    SANDPIPER_OUTBOUND_PRIVATE: "10.1.0.0/16, fd00::/8,127.0.0.1",
    SANDPIPER_REGISTRIES: "docker.io, *.example.com,registry.lan:5000",
    SANDPIPER_PACKAGE_MIRRORS: "npm=https://mirror.lan/npm/, pip=http://10.0.0.1:8081/simple",
    SANDPIPER_SKILLS: "skills",
    SANDPIPER_WEBHOOK_URL: "https://hooks.example/events?team=1",
    SANDPIPER_WEBHOOK_SECRET: "0123456789abcdef",
    SANDPIPER_WEBHOOK_FORMAT: "agent-server",
    SANDPIPER_CORS_ORIGINS: "https://a.example, http://b.example:8080/",
  };
  expect([...Object.keys(env), ...otherKeySources].sort()).toEqual(
    Object.values(variables)
      .map(({ name }) => name)
      .sort(),
  );
  expect(readConfig(env)).toEqual({
    host: "::1",
    port: 0,
    dataDir: "/srv/data",
    vaultKey: { from: "file", path: `${process.cwd()}/keys/vault` },
    database: { from: "file", path: `${process.cwd()}/keys/database` },
    node: { url: "http://10.0.0.5:3000", lostAfterMs: 30_000 },
    blobs: {
      kind: "s3",
      bucket: "team-blobs",
      prefix: "one/two/",
      endpoint: "https://s3.example.com",
      region: "eu-central-1",
      credentialsFile: `${process.cwd()}/keys/s3`,
    },
    apiKey: "0123456789abcdef",
    publicUrl: "https://example.com/sandpiper",
    driver: "docker",
    specsFile: `${process.cwd()}/specs.json`,
    registryAuth: "/etc/sandpiper/auth.json",
    registries: ["docker.io", "*.example.com", "registry.lan:5000"],
    dockerHost: { protocol: "http", host: "::1", port: 2375 },
    kubernetes: {
      kubeconfig: "/etc/sandpiper/kubeconfig",
      namespace: "sandboxes",
      installation: "team1",
      runtimeClass: "gvisor",
      storageClass: "fast.example",
      pullSecrets: ["first", "second"],
      warmPods: 3,
      userNamespaces: false,
      kind: "sandbox",
    },
    runtime: "/usr/bin/crun",
    bodyLimit: 1_048_576,
    logLevel: "debug",
    limits: { memoryBytes: 536_870_912, pids: 100, cpus: 0.5, diskBytes: 1_099_511_627_776 },
    sandboxQuotas: { files: 500, snapshots: 6, sandboxes: 0, userDiskBytes: 2 ** 30, images: 4 },
    maxImageBytes: 30 * 2 ** 30,
    storageQuotas: { conversationBytes: 2 ** 22, userBytes: 0 },
    idlePauseMs: 60_000,
    hibernateAfterMs: 0,
    deleteAfterMs: 31_536_000_000,
    maxSandboxes: 5,
    maxRuns: 3,
    dailyBudget: 12.5,
    maxRequests: 50,
    trustedProxies: ["10.1.0.0/16", "127.0.0.1/32"],
    outboundPrivate: ["10.1.0.0/16", "fd00::/8", "127.0.0.1"],
    packageMirrors: {
      npm: new URL("https://mirror.lan/npm/"),
      pip: new URL("http://10.0.0.1:8081/simple"),
    },
    skillsDir: `${process.cwd()}/skills`,
    webhook: {
      url: "https://hooks.example/events?team=1",
      secret: "0123456789abcdef",
      format: "agent-server",
    },
    corsOrigins: ["https://a.example", "http://b.example:8080"],
  });
  expect(listUnknownVariables(env)).toEqual([]);
});

test.each([
  ["/run/docker.sock", { socketPath: "/run/docker.sock" }],
  ["unix:///run/user/1000/podman/podman.sock", { socketPath: "/run/user/1000/podman/podman.sock" }],
  ["tcp://engine.example", { protocol: "http", host: "engine.example", port: 2375 }],
  ["https://engine.example", { protocol: "https", host: "engine.example", port: 2376 }],
])("the engine's address %s is read", (text, expected) => {
  expect(readConfig({ SANDPIPER_DOCKER_HOST: text }).dockerHost).toEqual(expected);
});

test("the key of the vault comes from one variable", () => {
  const key = Buffer.alloc(32, 0xfb);
  for (const text of [key.toString("base64"), key.toString("base64url"), key.toString("hex")])
    expect(readConfig({ SANDPIPER_VAULT_KEY: text }).vaultKey).toEqual({ from: "variable", key });
  const command = (text: string) => readConfig({ SANDPIPER_VAULT_KEY_COMMAND: text }).vaultKey;
  const argv = ["kms", "decrypt", "--key", "a b"];
  expect(command("kms  decrypt --key x")).toEqual({ from: "command", argv: [...argv.slice(0, 3), "x"] });
  expect(command(JSON.stringify(argv))).toEqual({ from: "command", argv });
  const both = { SANDPIPER_VAULT_KEY: key.toString("hex"), SANDPIPER_VAULT_KEY_COMMAND: "kms" };
  expect(failure(both)!.message).toMatch(
    /^SANDPIPER_VAULT_KEY and SANDPIPER_VAULT_KEY_COMMAND are both set: /,
  );
});

test("blobs are kept in a folder, or in a bucket with the usual region", () => {
  const blobs = (env: Record<string, string>) => readConfig({ HOME: "/root", ...env }).blobs;
  expect(blobs({ SANDPIPER_BLOBS: "/srv/blobs" })).toEqual({ kind: "folder", path: "/srv/blobs" });
  const bucket = { kind: "s3", bucket: "team", prefix: "", endpoint: undefined, credentialsFile: undefined };
  expect(blobs({ SANDPIPER_BLOBS: "s3://team" })).toEqual({ ...bucket, region: "us-east-1" });
  const there = blobs({ SANDPIPER_BLOBS: "s3://team/", AWS_REGION: "eu-west-1" });
  expect(there).toEqual({ ...bucket, region: "eu-west-1" });
});

const wrong: [string, string[]][] = [
  [
    "SANDPIPER_BLOBS",
    [
      "blobs",
      "/",
      "//",
      "s3://",
      "s3://A",
      "s3://a b",
      "s3://team/../x",
      "s3://team//x",
      "s3:team",
      "https://x",
    ],
  ],
  [
    "SANDPIPER_BLOBS_ENDPOINT",
    ["s3.example.com", "https://s3.example.com/path", "https://a:b@s3.example.com"],
  ],
  ["SANDPIPER_BLOBS_REGION", ["EU", "a/b", "x y"]],
  ["SANDPIPER_BLOBS_CREDENTIALS", ["/etc/"]],
  ["SANDPIPER_VAULT_KEY", ["short", "z".repeat(64), `${"a".repeat(43)}==`, "a".repeat(42)]],
  ["SANDPIPER_VAULT_KEY_COMMAND", ["[", "[]", "[1]", '[""]', "[true]", "a\0b", "x".repeat(5_000)]],
  ["SANDPIPER_HOST", ["a b", "localhost:3000", "http://localhost", "-x", "[::1]"]],
  ["SANDPIPER_REGISTRIES", ["https://docker.io", "docker.io/library", "*", "a b", "docker.io,,x.io"]],
  [
    "SANDPIPER_PACKAGE_MIRRORS",
    ["npm", "npm=x", "npm=ftp://x/", "nmp=https://x/", "npm=https://a:b@x/", "npm=https://x/,npm=https://y/"],
  ],
  ["SANDPIPER_PORT", ["-1", "65536", "3000.5", "0x10", "http", "1e3", "9".repeat(40)]],
  ["SANDPIPER_DATA", ["/", "//", "/a\0b", "data", "./data", "~/data"]],
  [
    "SANDPIPER_API_KEY",
    ["short", "fifteen-letters", "with a space inside it", "ümläutümläutümläut", "x".repeat(257)],
  ],
  [
    "SANDPIPER_PUBLIC_URL",
    [
      "example.com",
      "ftp://example.com",
      "https://user:pw@example.com",
      "https://example.com/?a=1",
      "https://example.com/#x",
    ],
  ],
  ["SANDPIPER_DRIVER", ["podman", "OCI"]],
  ["SANDPIPER_SPECS", ["specs/", "a\0b"]],
  ["SANDPIPER_REGISTRY_AUTH", ["/etc/"]],
  ["SANDPIPER_KUBERNETES_NAMESPACE", ["Upper", "-a", "a b", "a.b", "x".repeat(64)]],
  ["SANDPIPER_KUBERNETES_INSTALLATION", ["team-1", "Team", "thirteenchars1"]],
  ["SANDPIPER_KUBERNETES_KIND", ["Sandbox", "pods", "none"]],
  ["SANDPIPER_KUBERNETES_RUNTIME_CLASS", ["a/b", "Upper", "."]],
  ["SANDPIPER_KUBERNETES_PULL_SECRETS", ["Upper", "a,,b", "a b"]],
  ["SANDPIPER_KUBERNETES_WARM_PODS", ["-1", "101", "many"]],
  ["SANDPIPER_KUBERNETES_USER_NAMESPACES", ["true", "1", "ON"]],
  [
    "SANDPIPER_DOCKER_HOST",
    ["docker.sock", "ssh://host", "unix://", "tcp://user:pw@host:1", "tcp://host:1/path", "tcp://host:99999"],
  ],
  ["SANDPIPER_RUNTIME", ["crun --debug", "bin/crun", "a;b"]],
  ["SANDPIPER_BODY_LIMIT", ["0", "1023", "2G", "1.5M", "ten"]],
  ["SANDPIPER_LOG_LEVEL", ["verbose", "INFO"]],
  ["SANDPIPER_MEMORY", ["1M", "-2G", "2 G", "99999T"]],
  ["SANDPIPER_PIDS", ["0", "15", "many", "4194305"]],
  ["SANDPIPER_CPUS", ["0", "-1", "1e2", "0.001", "1025", "Infinity"]],
  ["SANDPIPER_DISK", ["1K", "-1", "10 G"]],
  ["SANDPIPER_IDLE_PAUSE", ["-1", "1.5", "1h", "31536001"]],
  ["SANDPIPER_HIBERNATE_AFTER", ["-1", "never"]],
  ["SANDPIPER_DELETE_AFTER", ["-1", "0.5", "36501"]],
  ["SANDPIPER_MAX_SANDBOXES", ["-1", "many", "1000001"]],
  ["SANDPIPER_MAX_RUNS", ["-1", "1.5", "1000001"]],
  ["SANDPIPER_DAILY_BUDGET", ["-1", "1e3", "$5", "1000001", ".5"]],
  ["SANDPIPER_MAX_REQUESTS", ["-1", "0.5", "1000001"]],
  ["SANDPIPER_TRUSTED_PROXIES", ["*", "10.0.0.0/33", "proxy.example", "loopback"]],
  [
    "SANDPIPER_OUTBOUND_PRIVATE",
    ["*", "10.0.0.0/33", "10.1/16", "git.example", "10.0.0.0/8,,127.0.0.1", "fd00::/-1"],
  ],
  [
    "SANDPIPER_CORS_ORIGINS",
    ["*", "https://a.example/path", "a.example", "https://a.example,,https://b.example"],
  ],
];

test.each(wrong)("wrong values of %s end with one sentence that names it", (name, values) => {
  for (const value of values) {
    const error = failure({ [name]: value });
    expect(error, value).toBeInstanceOf(PlatformError);
    expect(error).toMatchObject({ code: "ConfigInvalid" });
    expect(error!.message).toMatch(new RegExp(`^${name} must be [^\n]+\\.$`));
    if (/_(API|VAULT)_KEY$/.test(name)) expect(error!.message).not.toContain(value);
  }
});

test("any text is either read into a usable value or refused with a sentence", () => {
  const name = fc.constantFrom(...Object.values(variables).map((variable) => variable.name));
  const value = fc.oneof(
    fc.string(),
    fc.string({ unit: "binary" }),
    fc.double().map(String),
    fc.webUrl(),
    fc.ipV6(),
  );
  fc.assert(
    fc.property(name, value, (key, text) => {
      const error = failure({ HOME: "/root", [key]: text });
      if (error) {
        expect(error).toMatchObject({ code: "ConfigInvalid" });
        expect(error.message.length).toBeLessThan(700);
        return;
      }
      const config = readConfig({ HOME: "/root", [key]: text });
      expect(isAbsolute(config.dataDir)).toBe(true);
      expect(Number.isInteger(config.port) && config.port >= 0 && config.port <= 65_535).toBe(true);
      expect(config.limits.cpus).toBeGreaterThan(0);
      expect(Number.isSafeInteger(config.bodyLimit) && Number.isSafeInteger(config.limits.memoryBytes)).toBe(
        true,
      );
      expect(config.publicUrl?.endsWith("/") ?? false).toBe(false);
      for (const origin of config.corsOrigins) expect(new URL(origin).origin).toBe(origin);
    }),
    { numRuns: 2000 },
  );
});

test("an unknown variable causes a warning with the closest known name", () => {
  expect(
    listUnknownVariables({
      SANDPIPER_PROT: "1",
      SANDPIPER_COLOUR_OF_THE_SKY: "1",
      SANDPIPER_MEM: "1",
      OTHER: "1",
    }),
  ).toEqual([
    "The variable SANDPIPER_COLOUR_OF_THE_SKY is unknown and has no effect.",
    "The variable SANDPIPER_MEM is unknown and has no effect; did you mean SANDPIPER_MEMORY?",
    "The variable SANDPIPER_PROT is unknown and has no effect; did you mean SANDPIPER_PORT?",
  ]);
});

test("the documentation and the help show every variable of the table", async () => {
  const page = await readFile(new URL("../../../../docs/team/configuration.md", import.meta.url), "utf8");
  expect(page).toContain(formatVariablesMarkdown());
  for (const { name, defaultText } of Object.values(variables)) {
    expect(formatVariablesHelp()).toContain(name);
    expect(formatVariablesHelp()).toContain(`(default: ${defaultText})`);
  }
});

function failure(env: Record<string, string>): Error | undefined {
  try {
    readConfig(env);
    return undefined;
  } catch (error) {
    return error as Error;
  }
}
