import { readConfig } from "@sandpiper/server/config/read-config";
import { startPlatform } from "@sandpiper/server/platform";
import { message } from "@sandpiper/server/test/support/store";
import { drive, type Order, stamped } from "./sockets-drive.ts";

/**
 * A platform in its own process that appends events on its parent's orders, like that many agents'
 * runs. Arguments: conversation ids.
 */
const ids = process.argv.slice(2);
const platform = await startPlatform(readConfig(process.env));
process.on("message", async (order: Order) => {
  const { events } = platform.store;
  process.send!(
    await drive(order, (index) =>
      events.append(ids[index % order.conversations]!, [message(stamped(order.length))]),
    ),
  );
});
process.on("disconnect", () => void platform.close().then(() => process.exit()));
process.send!({ url: platform.url });
