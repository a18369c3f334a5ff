import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { SingleFlight } from "@sandpiper/core/scheduling/single-flight";
import { LRUCache } from "lru-cache";
import type { PreparedSpec, PrepareOptions, SandboxSpec, SandboxUser } from "../../driver.ts";
import { parseImageReference, type RegistryImage } from "../../specs/image-reference.ts";
import type { Registries } from "../../specs/registries.ts";
import { FetchTurns } from "../common/images/fetch-turns.ts";
import { findUser } from "../common/images/find-user.ts";
import type { Cluster } from "./cluster.ts";
import { runInPod } from "./exec-stream.ts";
import { helperPath } from "./helper-program.ts";
import { labels } from "./labels.ts";
import { containerName, makePod, type PodDefaults, sandboxStatus } from "./pod-options.ts";
import type { Pods } from "./pods.ts";

/** Time after which the driver looks up again the image of a tag, ms. */
const tagLifeMs = 600_000;
/** Maximum number of images whose facts the driver keeps in memory. */
const maxKnown = 1_000;

/** Variables that the cluster and the runtime add to those of an image. */
const addedVariables = /^(?:KUBERNETES_\w+|HOSTNAME|HOME)$/;

/** Facts of an image on which a spec depends. */
interface ImageFacts {
  /** Reference of the image, with its digest where the cluster tells it. */
  reference: string;
  env: Record<string, string>;
  workingDir: string;
  /** User of the image as `uid:gid`. */
  user: string;
  passwd: string;
  group: string;
}

/** Prepares specs whose images the nodes fetch. A short pod of the image tells its facts. */
export class Images {
  readonly #cluster: Cluster;
  readonly #pods: Pods;
  readonly #defaults: PodDefaults;
  readonly #registries: Registries;
  readonly #known = new LRUCache<string, ImageFacts>({ max: maxKnown });
  readonly #fetches = new SingleFlight<ImageFacts>();
  readonly #turns = new FetchTurns();

  constructor({
    cluster,
    pods,
    defaults,
    registries,
  }: { cluster: Cluster; pods: Pods; defaults: PodDefaults; registries: Registries }) {
    this.#cluster = cluster;
    this.#pods = pods;
    this.#defaults = defaults;
    this.#registries = registries;
  }

  async prepare(spec: SandboxSpec, options: PrepareOptions): Promise<PreparedSpec> {
    const { root, user } = spec;
    if (root.kind !== "image") {
      const given = root.kind === "host" ? "the host's files" : "a folder";
      throw new PlatformError("ClusterNeedsImage", { given });
    }
    const facts = await this.#describe(root.reference, options);
    return {
      ...spec,
      root: { kind: "image", reference: facts.reference },
      env: { ...facts.env, ...spec.env },
      workingDir: spec.workingDir || facts.workingDir,
      user: typeof user === "object" && user !== null ? user : lookUpUser(facts, user, root.reference),
    };
  }

  /**
   * Tells whether the image may have files in the folders that a volume hides. The image may have
   * them in the home of one of its own users and in its own working folder.
   */
  async mayHaveFiles({ root, user, workingDir }: PreparedSpec): Promise<boolean> {
    if (root.kind !== "image") return false;
    const facts = await this.#describe(root.reference, {});
    if (facts.workingDir === workingDir) return true;
    const entry = facts.passwd.split("\n").find((line) => line.split(":")[2] === String(user.uid));
    return entry?.split(":")[5] === user.home;
  }

  async #describe(text: string, options: PrepareOptions): Promise<ImageFacts> {
    const image = parseImageReference(text);
    if (image.source !== "registry") throw new PlatformError("ClusterImageSource", { image: image.name });
    this.#registries.checkEngine(image.registry);
    const reference = toClusterName(image);
    const known = this.#known.get(reference);
    if (known) return known;
    const { owner = "", ...rest } = options;
    return await this.#fetches.run(reference, rest, (report, signal) =>
      this.#turns.run(owner, { report, signal }, async () => {
        report(`asking the cluster for ${image.name}`);
        const facts = await this.#ask(reference, image, signal);
        this.#known.set(reference, facts, image.digest ? {} : { ttl: tagLifeMs });
        this.#known.set(facts.reference, facts);
        return facts;
      }),
    );
  }

  async #ask(reference: string, image: RegistryImage, signal: AbortSignal): Promise<ImageFacts> {
    const { installation } = this.#defaults;
    const name = `sandpiper-${installation}-image-${randomBytes(6).toString("hex")}`;
    const pod = makePod(
      {
        name,
        labels: { [labels.installation]: installation, [labels.helper]: "yes" },
        image: reference,
        command: [helperPath, "first", "0", "0", "0", "0", "/", "/"],
        security: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
      },
      this.#defaults,
    );
    const created = await this.#pods.create(pod);
    try {
      signal.throwIfAborted();
      const started = await this.#pods.waitUntilStarted(created!, signal);
      const argv = [helperPath, "describe"];
      const text = await runInPod(this.#cluster, name, { container: containerName, argv });
      return parseFacts(text, image, sandboxStatus(started)?.imageID ?? "");
    } finally {
      await this.#pods.remove(name);
    }
  }
}

/** Returns the name by which nodes fetch an image, with its digest if it is known. */
function toClusterName(image: RegistryImage): string {
  return image.digest === undefined ? image.name : `${image.registry}/${image.repository}@${image.digest}`;
}

/** Parses the output of `helper describe`. */
function parseFacts(text: string, image: RegistryImage, imageId: string): ImageFacts {
  const [workingDir = "/", user = "0:0", count = "0", ...rest] = text.split("\0");
  const variables = rest.slice(0, Number(count)).map(splitVariable);
  const digest = image.digest ?? /@(sha256:[0-9a-f]{64})$/.exec(imageId)?.[1];
  return {
    // An image that was loaded into a node has no digest by which a node could fetch it.
    reference: digest === undefined ? image.name : `${image.registry}/${image.repository}@${digest}`,
    env: Object.fromEntries(variables.filter(([name]) => !addedVariables.test(name))),
    workingDir,
    user,
    passwd: rest[Number(count)] ?? "",
    group: rest[Number(count) + 1] ?? "",
  };
}

function splitVariable(text: string): [string, string] {
  const equals = text.indexOf("=");
  return equals < 0 ? [text, ""] : [text.slice(0, equals), text.slice(equals + 1)];
}

/** `findUser` reads files of a root filesystem. */
function lookUpUser(
  { passwd, group, user }: ImageFacts,
  text: string | null,
  reference: string,
): SandboxUser {
  const root = mkdtempSync(join(tmpdir(), "sandpiper-users-"));
  try {
    mkdirSync(join(root, "etc"));
    writeFileSync(join(root, "etc/passwd"), passwd);
    writeFileSync(join(root, "etc/group"), group);
    return findUser(root, text ?? user, `the image ${reference.replace(/@.*/, "")}`);
  } finally {
    rmSync(root, { recursive: true });
  }
}
