import { bodyAttacks } from "./attacks-bodies.ts";
import { httpAttacks } from "./attacks-http.ts";
import { socketAttacks } from "./attacks-sockets.ts";
import type { Attack } from "./attacks-target.ts";

export const attacks: readonly Attack[] = [...httpAttacks, ...bodyAttacks, ...socketAttacks];
