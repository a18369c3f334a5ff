import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../../common/schema.ts";
import { observation } from "./observation.ts";

/** Browser tools (events.md section 3). */

const index = Type.Integer({ minimum: 0 });

const newTab = { new_tab: Type.Boolean({ default: false }) };

export const BrowserNavigateAction = Type.Object({
  kind: Type.Literal("BrowserNavigateAction"),
  url: Type.String(),
  ...newTab,
});

export const BrowserClickAction = Type.Object({ kind: Type.Literal("BrowserClickAction"), index, ...newTab });

export const BrowserTypeAction = Type.Object({
  kind: Type.Literal("BrowserTypeAction"),
  index,
  text: Type.String(),
});

export const BrowserGetStateAction = Type.Object({
  kind: Type.Literal("BrowserGetStateAction"),
  include_screenshot: Type.Boolean({ default: false }),
});

export const BrowserGetContentAction = Type.Object({
  kind: Type.Literal("BrowserGetContentAction"),
  extract_links: Type.Boolean({ default: false }),
  start_from_char: Type.Integer({ minimum: 0, default: 0 }),
});

export const BrowserScrollAction = Type.Object({
  kind: Type.Literal("BrowserScrollAction"),
  direction: StringEnum(["up", "down"], { default: "down" }),
});

export const BrowserGoBackAction = Type.Object({ kind: Type.Literal("BrowserGoBackAction") });

export const BrowserListTabsAction = Type.Object({ kind: Type.Literal("BrowserListTabsAction") });

export const BrowserSwitchTabAction = Type.Object({
  kind: Type.Literal("BrowserSwitchTabAction"),
  tab_id: Type.String(),
});

export const BrowserCloseTabAction = Type.Object({
  kind: Type.Literal("BrowserCloseTabAction"),
  tab_id: Type.String(),
});

export const BrowserGetStorageAction = Type.Object({ kind: Type.Literal("BrowserGetStorageAction") });

export const BrowserSetStorageAction = Type.Object({
  kind: Type.Literal("BrowserSetStorageAction"),
  storage_state: Type.Record(Type.String(), Type.Unknown()),
});

export const BrowserObservation = Type.Object({
  kind: Type.Literal("BrowserObservation"),
  ...observation,
  screenshot_data: Type.Optional(
    Nullable(Type.String({ description: "base64 of an image, without a data URL's head" })),
  ),
  full_output_save_dir: Type.Optional(Nullable(Type.String())),
});

export type BrowserNavigateAction = Static<typeof BrowserNavigateAction>;
export type BrowserClickAction = Static<typeof BrowserClickAction>;
export type BrowserTypeAction = Static<typeof BrowserTypeAction>;
export type BrowserGetStateAction = Static<typeof BrowserGetStateAction>;
export type BrowserGetContentAction = Static<typeof BrowserGetContentAction>;
export type BrowserScrollAction = Static<typeof BrowserScrollAction>;
export type BrowserGoBackAction = Static<typeof BrowserGoBackAction>;
export type BrowserListTabsAction = Static<typeof BrowserListTabsAction>;
export type BrowserSwitchTabAction = Static<typeof BrowserSwitchTabAction>;
export type BrowserCloseTabAction = Static<typeof BrowserCloseTabAction>;
export type BrowserGetStorageAction = Static<typeof BrowserGetStorageAction>;
export type BrowserSetStorageAction = Static<typeof BrowserSetStorageAction>;
export type BrowserObservation = Static<typeof BrowserObservation>;
