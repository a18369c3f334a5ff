import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import type { ModelServer } from "@sandpiper/models/test/support/model-server";
import { neededRights, sandboxRights } from "@sandpiper/sandbox/drivers/kubernetes/access";
import {
  clusterImage,
  kubectl,
  kubectlAside,
  loadClusterImage,
} from "@sandpiper/sandbox/test/support/cluster-image";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { awaitResults, sendCalls, startCallModel, textOf } from "../support/call-model.ts";
import { chart, findHelm, helm } from "../support/helm.ts";
import {
  caller,
  removeSandboxes,
  startConversation,
  type TestPlatform,
  testKey,
} from "../support/platform.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import { terminal } from "../support/script.ts";
import { loadServerImage, serverImage } from "../support/server-image.ts";

/**
 * The chart on the test cluster: servers as pods, a PostgreSQL and a model of this machine, and
 * sandboxes as pods of their own namespace.
 */

const isBuilt = findHelm() !== undefined;
if (!isBuilt) console.log("chart: NOT RUN: Helm is not built; run  scripts/helm");

/** The machine's address as pods see it. */
const machine = "10.231.0.1";
const namespace = "agents";
const sandboxes = "agents-sandboxes";
const deployment = "deployment/sandpiper";

let dir: string;
let postgres: PostgresServer;
let models: ModelServer;
let url: string;
let call: TestPlatform["call"];
let values: string;
const forwarders: Server[] = [];

/** Lets pods reach a port of this machine's loopback. */
async function forward(port: number): Promise<void> {
  const server = createServer((socket) => {
    const target = connect(port, "127.0.0.1");
    for (const [one, other] of [
      [socket, target],
      [target, socket],
    ] as const)
      one
        .on("error", () => other.destroy())
        .on("close", () => other.destroy())
        .pipe(other);
  });
  await new Promise<void>((resolve) => server.listen(port, machine, resolve));
  forwarders.push(server);
}

const secret = (name: string, data: Record<string, string>) => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name, namespace },
  stringData: data,
});

function apply(...items: object[]): void {
  const path = join(dir, "objects.json");
  writeFileSync(path, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  kubectl("apply", "-f", path);
}

/** What keeps a release from getting ready, for the message of a failure. */
function explain(error: unknown): Error {
  const { stderr = "" } = error as { stderr?: string };
  const events = kubectl("-n", namespace, "get", "events", "--sort-by=.lastTimestamp");
  const logs = kubectl("-n", namespace, "logs", "-l", "app.kubernetes.io/instance=sandpiper", "--tail=20");
  return new Error(`${stderr}\n${events.split("\n").slice(-12).join("\n")}\n${logs}`);
}

/** This process must not wait for Helm: it forwards the connections of the pods. */
async function release(command: "install" | "upgrade", ...argv: string[]): Promise<string> {
  try {
    return await helm(
      command,
      "sandpiper",
      chart,
      "-n",
      namespace,
      "-f",
      values,
      "--wait",
      "--timeout",
      "300s",
      ...argv,
    );
  } catch (error) {
    throw explain(error);
  }
}

/**
 * Asks the Service every 100 ms on a new connection, without waiting for earlier answers, until
 * `work` ends. Returns what each request got: a status or a message.
 */
async function paceRequests(url: string, work: () => Promise<void>): Promise<(number | string)[]> {
  const answers: Promise<number | string>[] = [];
  const headers = { "X-Session-API-Key": testKey };
  const ask = () =>
    answers.push(
      new Promise((resolve) =>
        get(`${url}/api/v1/settings`, { headers, agent: false, timeout: 30_000 }, (response) => {
          response.resume().on("end", () => resolve(response.statusCode ?? 0));
          response.on("error", (error) => resolve(error.message));
        })
          .on("timeout", () => resolve("no answer"))
          .on("error", (error) => resolve(error.message)),
      ),
    );
  const timer = setInterval(ask, 100);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return await Promise.all(answers);
}

/** Names of the pods of the servers, with those that end. */
const serverPods = () =>
  kubectl(
    ...["-n", namespace, "get", "pods", "-l", "app.kubernetes.io/name=sandpiper"],
    ...["-o", "jsonpath={.items[*].metadata.name}"],
  ).split(" ");

interface Rule {
  apiGroups: string[];
  resources: string[];
  verbs: string[];
}

/** The rules of a rendered role as `verb resource.group`. */
function rightsOf(role: string): string[] {
  const { rules } = JSON.parse(kubectl("-n", sandboxes, "get", role, "-o", "json"));
  return rules.flatMap(({ apiGroups: [group], resources, verbs }: Rule) =>
    resources.flatMap((resource) => verbs.map((verb) => `${verb} ${resource}${group ? `.${group}` : ""}`)),
  );
}

describe.skipIf(!isBuilt)("the chart", () => {
  beforeAll(async () => {
    dir = mkdtempSync("/tmp/sandpiper-test-");
    values = join(dir, "values.json");
    loadClusterImage();
    loadServerImage();
    postgres = await startPostgres();
    models = await startCallModel();
    await forward(postgres.port);
    await forward(Number(new URL(models.url).port));
    const database = (await postgres.createDatabase()).replace("127.0.0.1", machine);
    apply(
      {
        apiVersion: "v1",
        kind: "Namespace",
        // The servers' own pods have no right that this standard forbids.
        metadata: { name: namespace, labels: { "pod-security.kubernetes.io/enforce": "restricted" } },
      },
      secret("database", { url: database }),
      secret("vault-key", { key: randomBytes(32).toString("hex") }),
      secret("api-key", { key: testKey }),
    );
    const given = {
      image: serverImage,
      database: { secret: "database" },
      vaultKey: { secret: "vault-key" },
      apiKey: { secret: "api-key" },
      specs: [{ id: "busybox", image: clusterImage, user: "agent", limits: { disk: "1G", memory: "256M" } }],
      sandboxes: { runtimeClass: "runc" },
      resources: { requests: { cpu: "50m", memory: "256Mi" }, limits: { memory: "1Gi" } },
    };
    writeFileSync(values, JSON.stringify(given));
    await release("install");
    const address = kubectl(
      "-n",
      namespace,
      "get",
      "service",
      "sandpiper",
      "-o",
      "jsonpath={.spec.clusterIP}",
    );
    url = `http://${address}`;
    call = caller(url, testKey);
  });

  afterAll(async () => {
    if (call) await removeSandboxes(call);
    kubectl("delete", "namespace", namespace, sandboxes, "--ignore-not-found", "--wait=false");
    for (const server of forwarders) server.close();
    await models?.close();
    await postgres?.remove();
    rmSync(dir, { recursive: true, force: true });
  });

  test("a conversation works through the Service in a sandbox pod, and goes on after an upgrade", async () => {
    const llm = {
      model: "openai/first",
      api_key: "sk-x",
      base_url: models.url.replace("127.0.0.1", machine),
    };
    const stored = await call("POST", "/api/v1/settings", { agent_settings_diff: { llm } });
    expect(stored.status, JSON.stringify(stored.body)).toBe(200);
    const { id, sandboxId } = await startConversation(
      call,
      JSON.stringify([terminal("id -u; echo kept >kept.txt")]),
    );
    expect(textOf((await awaitResults(call, id, 1))[0]!)).toContain("1000");
    expect(
      kubectl("-n", sandboxes, "get", "pods", "-l", `sandpiper/sandbox=${sandboxId}`, "-o", "name"),
    ).toMatch(/^pod\/sandpiper-main-/);
    // Another server takes the place of the first one.
    await release("upgrade", "--set", "environment.SANDPIPER_LOG_LEVEL=debug");
    await sendCalls(call, id, [terminal("cat kept.txt")]);
    expect(textOf((await awaitResults(call, id, 2)).at(-2)!)).toContain("kept");
  });

  test("no request fails while an upgrade replaces three servers one by one", async () => {
    await release("upgrade", "--set", "replicas=3");
    await expect.poll(serverPods).toHaveLength(3);
    const before = serverPods();
    const answers = await paceRequests(url, async () => {
      await release("upgrade", "--set", "replicas=3", "--set", "environment.SANDPIPER_LOG_LEVEL=debug");
      // The last old server still has connections when the new ones are ready.
      await expect.poll(serverPods).toHaveLength(3);
    });
    expect(serverPods().filter((name) => before.includes(name))).toEqual([]);
    expect(answers.length).toBeGreaterThan(50);
    expect(answers.filter((answer) => answer !== 200)).toEqual([]);
  });

  test("the servers have the rights of the driver and no others, and doctor finds none missing", async () => {
    const needed = [...neededRights, ...sandboxRights].map(({ verb, resource }) => `${verb} ${resource}`);
    const given = [...rightsOf("role/sandpiper"), ...rightsOf(`clusterrole/${namespace}-sandpiper`)];
    expect(given.toSorted()).toEqual(needed.toSorted());
    const account = `--as=system:serviceaccount:${namespace}:sandpiper`;
    const can = (...argv: string[]) => {
      try {
        return kubectl("auth", "can-i", ...argv, account).trim();
      } catch {
        return "no";
      }
    };
    expect(can("create", "pods", "-n", sandboxes)).toBe("yes");
    expect(can("create", "pods", "-n", namespace)).toBe("no");
    expect(can("get", "secrets", "-n", sandboxes)).toBe("no");
    const doctor = ["-n", namespace, "exec", deployment, "--", "sandpiper", "doctor"];
    const { stdout } = await kubectlAside(...doctor);
    expect(stdout).toMatch(/cluster rights +all that are needed/);
    expect(stdout).toMatch(/database +PostgreSQL/);
  });

  test("what the test cluster cannot run is accepted by its API server", async () => {
    const all = {
      ...{ replicas: 3, publicUrl: "https://agents.example.org", environmentSecrets: ["model-keys"] },
      blobs: { address: "s3://bucket/prefix", endpoint: "https://s3.example.org", credentialsSecret: "s3" },
      sandboxes: {
        runtimeClass: "gvisor",
        storageClass: "fast",
        userNamespaces: false,
        registries: ["quay.io"],
      },
      ingress: { enabled: true, className: "nginx", host: "agents.example.org", tlsSecret: "certificate" },
      autoscaling: { enabled: true, metric: { selector: { release: "x" } } },
      networkPolicy: { from: [{ namespaceSelector: { matchLabels: { name: "ingress" } } }] },
      image: { pullSecrets: ["registry"] },
    };
    const path = join(dir, "all.json");
    writeFileSync(path, JSON.stringify(all));
    for (const metric of ["External", "Pods"]) {
      const rendered = await helm(
        ...["upgrade", "sandpiper", chart, "-n", namespace, "-f", values, "-f", path],
        ...["--set", `autoscaling.metric.type=${metric}`, "--dry-run=server"],
      );
      expect(rendered).toMatch(/kind: HorizontalPodAutoscaler/);
      expect(rendered).toMatch(/type: RollingUpdate/);
      const objects = rendered.slice(rendered.indexOf("---"), rendered.indexOf("\nNOTES:"));
      const file = join(dir, "rendered.yaml");
      writeFileSync(file, objects.replaceAll(/^(?:HOOKS|MANIFEST):$/gm, ""));
      const accepted = kubectl("apply", "--dry-run=server", "-f", file);
      for (const kind of ["horizontalpodautoscaler", "ingress", "deployment", "job", "networkpolicy"])
        expect(accepted).toMatch(new RegExp(`^${kind}.* \\(server dry run\\)$`, "m"));
    }
  });

  test.each([
    [["--set", "database.secret="], /database\/secret/],
    [["--set", "apiKey=plain-text"], /apiKey/],
    [["--set", "sandboxes.installation=Not-Valid"], /installation/],
    [["--set", "ingress.enabled=true"], /host/],
    [["--set", "environment.SANDPIPER_API_KEY=plain-text"], /SANDPIPER_API_KEY|propertyNames|environment/],
    [["--set", "databse.secret=x"], /databse/],
  ])("values %j are refused before anything changes", async (argv, message) => {
    const given = ["-n", namespace, "-f", values, ...argv, "--dry-run=client"];
    await expect(helm("upgrade", "sandpiper", chart, ...given)).rejects.toMatchObject({
      stderr: expect.stringMatching(message),
    });
  });
});
