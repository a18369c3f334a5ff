import { type Static, Type } from "typebox";
import { Nullable, Page, StringEnum } from "./schema.ts";

/** Sandbox states on the wire (app-server.md section 4). MISSING: there is a conversation but no sandbox any more. */
export const sandboxStatuses = ["STARTING", "RUNNING", "PAUSED", "ERROR", "MISSING"] as const;
export const SandboxStatus = StringEnum(sandboxStatuses);
export type SandboxStatus = (typeof sandboxStatuses)[number];

export const ExposedUrl = Type.Object({ name: Type.String(), url: Type.String(), port: Type.Integer() });

/** A sandbox (app-server.md section 4). `session_api_key` and `exposed_urls` are null unless it is RUNNING. */
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

export type ExposedUrl = Static<typeof ExposedUrl>;
export type SandboxInfo = Static<typeof SandboxInfo>;
export type SandboxSpecInfo = Static<typeof SandboxSpecInfo>;
