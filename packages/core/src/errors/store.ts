import type { ErrorTexts } from "./texts.ts";

export const storeErrors = {} as const satisfies ErrorTexts;
