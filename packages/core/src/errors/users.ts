import type { ErrorTexts } from "./texts.ts";

export const usersErrors = {} as const satisfies ErrorTexts;
