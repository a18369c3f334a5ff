import { Type } from "typebox";
import { Content } from "../content.ts";

/** The fields of every tool's observation. */
export const observation = { content: Type.Array(Content), is_error: Type.Boolean({ default: false }) };
