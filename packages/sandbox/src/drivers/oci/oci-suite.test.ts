import { suiteLimits } from "../../../test/driver-suite/context.ts";
import { describeDriver } from "../../../test/driver-suite/driver-suite.ts";
import { openTestDriver, testSpec, workingRuntimes } from "../../../test/support/oci.ts";
import { isRootless } from "../common/uid-range.ts";
import { OciDriver } from "./oci-driver.ts";

for (const runtime of await workingRuntimes()) {
  describeDriver(`the oci driver over ${runtime}`, async () => {
    const { driver, dir, end } = await openTestDriver(runtime);
    return {
      driver,
      spec: { ...testSpec, limits: suiteLimits, env: { OF_SPEC: "a b" } },
      unusable: [
        [
          { kind: "folder", path: "/no/such/folder" },
          isRootless() ? /needs a server that runs as root/ : /\/no\/such\/folder/,
        ],
        [{ kind: "image", reference: "a name" }, /^"a name" is not an image reference: /],
      ],
      memoryByProcess: isRootless(),
      reopen: async () => {
        const again = new OciDriver({ dir, runtime });
        await again.open();
        return again;
      },
      end,
    };
  });
}
