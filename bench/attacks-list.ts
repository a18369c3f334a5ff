import { bodyAttacks } from "./attacks-bodies.ts";
import { everydayAttacks } from "./attacks-everyday.ts";
import { httpAttacks } from "./attacks-http.ts";
import { routeAttacks } from "./attacks-routes.ts";
import { socketAttacks } from "./attacks-sockets.ts";
import type { Attack } from "./attacks-target.ts";

export const attacks: readonly Attack[] = [
  ...httpAttacks,
  ...bodyAttacks,
  ...routeAttacks,
  ...socketAttacks,
  ...everydayAttacks,
];

/** Attacks whose names contain one of the texts; without texts all. */
export function findAttacks(texts: readonly string[]): readonly Attack[] {
  return texts.length === 0
    ? attacks
    : attacks.filter(({ name }) => texts.some((text) => name.includes(text)));
}
