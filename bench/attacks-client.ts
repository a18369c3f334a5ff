import { attacks } from "./attacks-list.ts";
import type { Target } from "./attacks-target.ts";

/**
 * A process that runs one attack, named by its arguments: the name, the target, how long, ms. Its
 * end closes all that the attack opened.
 */
const [name, target, ms] = process.argv.slice(2);
const attack = attacks.find((one) => one.name === name)!;
process.on("uncaughtException", (error) => console.error(`${name}: ${error.message}`));
process.on("disconnect", () => process.exit());
await attack
  .run(JSON.parse(target!) as Target, AbortSignal.timeout(Number(ms)))
  .catch((error: unknown) => console.error(`${name}: ${error}`));
process.exit();
