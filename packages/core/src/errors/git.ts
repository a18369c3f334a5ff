import type { ErrorTexts } from "./texts.ts";

export const gitErrors = {} as const satisfies ErrorTexts;
