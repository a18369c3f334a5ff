/** The part of pino that the packages use. The first argument has facts, never secrets. */
export interface Logger {
  debug(facts: object, text: string): void;
  info(facts: object, text: string): void;
  warn(facts: object, text: string): void;
  error(facts: object, text: string): void;
}
