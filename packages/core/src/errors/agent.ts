import type { ErrorTexts } from "./texts.ts";

export const agentErrors = {} as const satisfies ErrorTexts;
