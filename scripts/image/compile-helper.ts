/** Compiles the helper of Kubernetes pods into the folder of the first argument. */
import { loadHelper } from "@sandpiper/sandbox/drivers/kubernetes/helper-program";

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("The folder is missing.");
await loadHelper(folder);
