import type { ErrorTexts } from "./texts.ts";

export const httpErrors = {} as const satisfies ErrorTexts;
