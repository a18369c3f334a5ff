import type { ErrorTexts } from "./texts.ts";

export const sandboxesErrors = {} as const satisfies ErrorTexts;
