import { PlatformError } from "@sandpiper/core/errors";
import { ConstraintViolation } from "../sql/constraint-violation.ts";

/** The error for a failure that a function of the database returns. */
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
    case "event-exists":
      return new ConstraintViolation("The log has an event with this id.");
    default:
      return new Error(`The database returned an unknown failure: ${failure}`);
  }
}
