import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** Plain `node:http` that answers every request with the bytes it is given as BODY; prints its port. */
const body = Buffer.from(process.env.BODY ?? "{}");
const server = createServer((_request, response) => {
  response.writeHead(200, { "content-type": "application/json; charset=utf-8", "content-length": body.length });
  response.end(body);
});
server.listen(0, "127.0.0.1", () => console.log((server.address() as AddressInfo).port));
