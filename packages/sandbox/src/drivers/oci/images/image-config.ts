import { PlatformError } from "@sandpiper/core/errors";
import { type Static, Type } from "typebox";
import { Compile } from "typebox/compile";

const Text = Type.String();
const Digest = Type.String({ pattern: "^sha256:[0-9a-f]{64}$" });
const Blob = Type.Object({ digest: Digest, size: Type.Integer({ minimum: 0 }) });

/** An image for one architecture: its configuration and layers. */
const Manifest = Type.Object({ config: Blob, layers: Type.Array(Blob, { maxItems: 1_000 }) });
/** An image for several architectures. */
const Index = Type.Object({
  manifests: Type.Array(
    Type.Object({
      digest: Digest,
      platform: Type.Optional(Type.Object({ os: Text, architecture: Text, variant: Type.Optional(Text) })),
    }),
    { maxItems: 1_000 },
  ),
});
const Config = Type.Object({
  architecture: Type.Optional(Text),
  os: Type.Optional(Text),
  config: Type.Optional(
    Type.Union([
      Type.Null(),
      Type.Object({
        Env: Type.Optional(Type.Union([Type.Null(), Type.Array(Text)])),
        User: Type.Optional(Text),
      }),
    ]),
  ),
});

export type Manifest = Static<typeof Manifest>;

const manifest = Compile(Manifest);
const index = Compile(Index);
const config = Compile(Config);

/** The machine's architecture as images name it. */
export const architecture =
  ({ x64: "amd64", ia32: "386" } as Record<string, string>)[process.arch] ?? process.arch;

const maxEnvBytes = 64 * 1024;

/**
 * Parses a manifest; of an index, returns the digest of the manifest for this machine.
 * Throws SandboxSpecUnusable.
 */
export function parseManifest(name: string, bytes: Buffer): { manifest: Manifest } | { instance: string } {
  const value = parseJson(name, bytes);
  if (manifest.Check(value)) return { manifest: value };
  if (!index.Check(value))
    throw new PlatformError("ImageInvalid", { name, reason: "its manifest has an unknown form" });
  const fitting = value.manifests.filter(
    ({ platform }) => platform?.os === "linux" && platform.architecture === architecture,
  );
  // No variant or the first one runs on every machine of the architecture.
  const chosen = fitting.toSorted(
    (a, b) => variantOrder(a.platform?.variant) - variantOrder(b.platform?.variant),
  )[0];
  if (chosen) return { instance: chosen.digest };
  const others = [...new Set(value.manifests.map(({ platform }) => platform?.architecture ?? "unknown"))];
  throw wrongArchitecture(name, others.slice(0, 10).join(", "));
}

function variantOrder(variant: string | undefined): number {
  return variant === undefined || variant === "v8" || variant === "v1" ? 0 : 1;
}

/** Parses an image's configuration. Throws SandboxSpecUnusable, also for another architecture. */
export function parseImageConfig(name: string, bytes: Buffer): { env: Record<string, string>; user: string } {
  const value = parseJson(name, bytes);
  if (!config.Check(value))
    throw new PlatformError("ImageInvalid", { name, reason: "its configuration has an unknown form" });
  if (value.os && value.os !== "linux")
    throw new PlatformError("ImageSystemWrong", { name, system: value.os });
  if (value.architecture && value.architecture !== architecture)
    throw wrongArchitecture(name, value.architecture);
  const lines = value.config?.Env ?? [];
  if (lines.join("\0").length > maxEnvBytes) throw new PlatformError("ImageEnvironmentTooLarge", { name });
  const pairs = lines.filter((line) => /^[^=\0]+=[^\0]*$/s.test(line)).map((line) => splitOnce(line));
  return { env: Object.fromEntries(pairs), user: value.config?.User ?? "" };
}

function splitOnce(line: string): [string, string] {
  const at = line.indexOf("=");
  return [line.slice(0, at), line.slice(at + 1)];
}

function wrongArchitecture(name: string, found: string): PlatformError {
  return new PlatformError("ImageArchitectureWrong", { name, found: found.slice(0, 200), architecture });
}

function parseJson(name: string, bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    throw new PlatformError("ImageInvalid", { name, reason: "its manifest is not JSON" });
  }
}
