import type { ErrorTexts } from "./texts.ts";

const archivePath = "GET /api/v1/conversation/{id}/events/search";

export const conversationsErrors = {
  TooManyEventsForArchive: [
    "ConversationTooLarge",
    ({ maxEvents }: { maxEvents: number }) =>
      `The conversation has more than ${maxEvents} events: read them page by page with ${archivePath}.`,
  ],
} as const satisfies ErrorTexts;
