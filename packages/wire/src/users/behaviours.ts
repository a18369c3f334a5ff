import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";

/** What a project can do by itself. */
export const behaviourKinds = [
  "setup_script",
  "pre_commit",
  "hook",
  "model_hook",
  "mcp_server",
  "skill_command",
  "git_setting",
  "sub_agent",
  "file",
] as const;

/** One thing that a project does: the script, command or configuration in full. */
export const BehaviourPart = Type.Object({
  kind: StringEnum(behaviourKinds),
  source: Type.String({ description: "file, relative to the project's folder" }),
  text: Type.String({ description: "the script, command or configuration, or the hash of a named file" }),
});

/** What a project does by itself; an addition to the contract. */
export const Behaviour = Type.Object({
  digest: Type.String({ description: "SHA-256 of the origin and of all parts, hexadecimal" }),
  origin: Type.String({
    description: "the repository's address, the folder that was copied, or the sandbox",
  }),
  parts: Type.Array(BehaviourPart),
  accepted_at: Nullable(Type.String({ format: "date-time" })),
  sandbox_ids: Type.Array(Type.String(), { description: "sandboxes in which it was found" }),
  link: Type.String({ description: "page on which a person reads and accepts it" }),
});

export const Behaviours = Type.Array(Behaviour);

export const BehaviourParams = Type.Object({
  digest: Type.String({ pattern: "^[0-9a-f]{64}$", description: "digest of the behaviour" }),
});

/** Body of `POST /api/v1/sandboxes/{sandbox_id}/behaviour`. */
export const FindBehaviourRequest = Type.Object({
  working_dir: Type.String({
    pattern: "^/[^\\0]*$",
    maxLength: 4096,
    description: "folder of the project in the sandbox, absolute",
  }),
  origin: Type.Optional(
    Nullable(
      Type.String({
        minLength: 1,
        maxLength: 1000,
        description: "where the folder comes from; default: what is known of it, else the sandbox",
      }),
    ),
  ),
});

export type BehaviourPart = Static<typeof BehaviourPart>;
export type Behaviour = Static<typeof Behaviour>;
export type FindBehaviourRequest = Static<typeof FindBehaviourRequest>;
