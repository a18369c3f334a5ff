/** A write that violates a constraint, such as a second row with the same id. */
export class ConstraintViolation extends Error {}
