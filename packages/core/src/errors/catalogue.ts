import type { ErrorCode } from "@sandpiper/wire/common/error-codes";
import { agentErrors } from "./agent.ts";
import { blobsErrors } from "./blobs.ts";
import { conversationsErrors } from "./conversations.ts";
import { driversErrors } from "./drivers.ts";
import { gitErrors } from "./git.ts";
import { httpErrors } from "./http.ts";
import { modelsErrors } from "./models.ts";
import { nodesErrors } from "./nodes.ts";
import { outboundErrors } from "./outbound.ts";
import { sandboxesErrors } from "./sandboxes.ts";
import { storeErrors } from "./store.ts";
import type { ErrorText } from "./texts.ts";
import { usersErrors } from "./users.ts";

export const areas = [
  agentErrors,
  blobsErrors,
  conversationsErrors,
  driversErrors,
  gitErrors,
  httpErrors,
  modelsErrors,
  nodesErrors,
  outboundErrors,
  sandboxesErrors,
  storeErrors,
  usersErrors,
] as const;

type GroupOf<Area> = Area extends unknown ? Area[keyof Area] : never;
type Group = GroupOf<(typeof areas)[number]>;
type KeyOf<Texts> = Texts extends unknown ? keyof Texts : never;
type TextOf<Key, Texts = Group> = Texts extends Readonly<Record<Key & string, infer Text>> ? Text : never;

/** A text that callers may see. Several keys may share a code. */
export type ErrorKey = KeyOf<Group> & string;

type NamesIn<Text> = Text extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never;

/** The parameters of a text: those of its function, or one for each `{name}`. */
export type ErrorParams<Key extends ErrorKey> =
  TextOf<Key> extends (params: infer Params) => string
    ? Params
    : Readonly<Record<NamesIn<TextOf<Key>>, string | number>>;

/** Code and text of every key. */
export const catalogue: ReadonlyMap<string, readonly [code: ErrorCode, text: ErrorText]> = new Map(
  areas.flatMap((area) =>
    Object.entries(area).flatMap(([code, texts]) =>
      Object.entries(texts).map(([key, text]) => [key, [code as ErrorCode, text as ErrorText]] as const),
    ),
  ),
);
