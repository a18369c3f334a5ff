import { PlatformError } from "@sandpiper/core/errors";

/** Returns the error for a failure that a function of the database reports. */
export function appendFailure(failure: string): Error {
  switch (failure) {
    case "conversation-not-found":
      return new PlatformError("StoredConversationMissing");
    case "ownership-lost":
      return new PlatformError("EpochPassed");
    case "log-full":
      return new PlatformError("ConversationLogFull");
    case "conversation-running":
      return new PlatformError("NavigatedWhileRunning");
    case "delivered-already":
      return new PlatformError("PendingMessageDelivered");
    case "conversation-bytes":
      return new PlatformError("ConversationStorageFull");
    case "user-bytes":
      return new PlatformError("UserStorageFull");
    case "uncertain":
      return new PlatformError("WriteUncertain", { retryAfter: 2 });
    default:
      return new Error(`The database returned an unknown failure: ${failure}`);
  }
}
