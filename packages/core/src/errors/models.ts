import type { ErrorTexts } from "./texts.ts";

export const modelsErrors = {} as const satisfies ErrorTexts;
