import { type Static, Type } from "typebox";
import { Nullable, Page, StringEnum } from "../common/schema.ts";

/**
 * Sandbox states on the wire (app-server.md section 4). MISSING: the conversation's sandbox was
 * deleted.
 */
export const sandboxStatuses = ["STARTING", "RUNNING", "PAUSED", "ERROR", "MISSING"] as const;
export const SandboxStatus = StringEnum(sandboxStatuses);
export type SandboxStatus = (typeof sandboxStatuses)[number];

export const ExposedUrl = Type.Object({ name: Type.String(), url: Type.String(), port: Type.Integer() });

/**
 * A sandbox (app-server.md section 4). `session_api_key` and `exposed_urls` are null unless it is
 * RUNNING.
 */
export const SandboxInfo = Type.Object({
  id: Type.String(),
  created_by_user_id: Nullable(Type.String()),
  sandbox_spec_id: Type.String(),
  status: SandboxStatus,
  session_api_key: Nullable(Type.String()),
  exposed_urls: Nullable(Type.Array(ExposedUrl)),
  created_at: Type.String({ format: "date-time" }),
  status_detail: Nullable(Type.String()),
});

const hostPattern = "^(\\*\\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$";

/** A host that a sandbox may reach; by default at the ports 80 and 443. */
export const NetworkRule = Type.Object({
  host: Type.String({
    pattern: hostPattern,
    description: "example.com, or *.example.com for every name below it",
  }),
  ports: Type.Optional(
    Type.Array(Type.Integer({ minimum: 1, maximum: 65_535 }), { minItems: 1, maxItems: 100 }),
  ),
  methods: Type.Optional(
    Nullable(Type.Array(Type.String({ pattern: "^[A-Z]{1,20}$" }), { minItems: 1, maxItems: 20 })),
  ),
});

/**
 * Overrides the network of the sandbox's spec; an extension. `allow` applies to `allowlist`;
 * without it the spec's rules stay.
 */
export const NetworkOverride = Type.Object({
  mode: StringEnum(["none", "allowlist", "open"]),
  allow: Type.Optional(Nullable(Type.Array(NetworkRule, { maxItems: 1_000 }))),
});

/** An absolute, plain path of at most 40 folders that is not in a folder of the system. */
const workingDirPattern =
  "^(?!/(?:bin|boot|dev|etc|lib(?:|32|64|x32)|proc|root|run|sbin|sys|usr|var/run)(?:/|$))(?:/(?!\\.{1,2}(?:/|$))[^/\\u0000-\\u001f\\u007f]{1,60}){1,40}$";

/** Body of `POST /api/v1/sandboxes`; an extension, the contract has none. */
export const SandboxStartRequest = Type.Object({
  network: Type.Optional(Nullable(NetworkOverride)),
  allow: Type.Optional(
    Nullable(
      Type.Array(NetworkRule, {
        maxItems: 1_000,
        description: "rules besides those of the network; a network of mode none becomes an allowlist",
      }),
    ),
  ),
  env: Type.Optional(
    Nullable(
      Type.Record(
        Type.String({ pattern: "^[A-Za-z_][A-Za-z0-9_]{0,127}$" }),
        Type.String({ maxLength: 65_536, pattern: "^[^\\0]*$" }),
        {
          maxProperties: 100,
          additionalProperties: false,
          description: "variables besides those of the spec; secrets belong into the secrets of the user",
        },
      ),
    ),
  ),
  working_dir: Type.Optional(
    Nullable(
      Type.String({
        pattern: workingDirPattern,
        maxLength: 1_000,
        description: "folder in which agents work, outside of system folders; default: the spec's",
      }),
    ),
  ),
});
export type SandboxStartRequest = Static<typeof SandboxStartRequest>;

/** Whether a sandbox can have its working folder at this path. */
export function isWorkingDir(path: string): boolean {
  return path.length <= 1_000 && new RegExp(workingDirPattern).test(path);
}

/** The files of a sandbox as they were once; an extension. */
export const SnapshotInfo = Type.Object({
  id: Type.String(),
  sandbox_id: Type.String({ description: "the sandbox that it was made of, which may be gone" }),
  sandbox_spec_id: Type.String(),
  created_at: Type.String({ format: "date-time" }),
});

/** A template for sandboxes (app-server.md section 4). */
export const SandboxSpecInfo = Type.Object({
  id: Type.String(),
  command: Nullable(Type.Array(Type.String())),
  created_at: Type.String({ format: "date-time" }),
  initial_env: Type.Record(Type.String(), Type.String()),
  working_dir: Type.String(),
});

export const SandboxPage = Page(SandboxInfo);
export const SandboxSpecPage = Page(SandboxSpecInfo);
export const SnapshotPage = Page(SnapshotInfo);

export type ExposedUrl = Static<typeof ExposedUrl>;
export type NetworkRule = Static<typeof NetworkRule>;
export type NetworkOverride = Static<typeof NetworkOverride>;
export type SnapshotInfo = Static<typeof SnapshotInfo>;
export type SandboxInfo = Static<typeof SandboxInfo>;
export type SandboxSpecInfo = Static<typeof SandboxSpecInfo>;
