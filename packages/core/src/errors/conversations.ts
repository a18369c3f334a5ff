import type { ErrorTexts } from "./texts.ts";

export const conversationsErrors = {} as const satisfies ErrorTexts;
