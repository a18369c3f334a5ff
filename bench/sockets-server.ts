import { readConfig } from "../packages/server/src/config/read-config.ts";
import { startPlatform } from "../packages/server/src/platform.ts";
import { message } from "../packages/server/src/store/testing.ts";
import { drive, type Order, stamped } from "./sockets-drive.ts";

/** A whole platform in a process of its own that appends events when its parent says so, as the runs of that many agents would. Takes conversation ids as arguments. */
const ids = process.argv.slice(2);
const platform = await startPlatform(readConfig(process.env));
process.on("message", async (order: Order) => {
  const { events } = platform.store;
  process.send!(
    await drive(order, (index) => events.append(ids[index % order.conversations]!, [message(stamped(order.length))])),
  );
});
process.on("disconnect", () => void platform.close().then(() => process.exit()));
process.send!({ url: platform.url });
