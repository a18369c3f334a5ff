import { PlatformError } from "@sandpiper/core/errors";
import { SettingsUpdate, SettingsView } from "@sandpiper/wire";
import { Type } from "typebox";
import { sendJson } from "../../server/json-text.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { refuseUnknownSettings } from "../../server/unknown-settings.ts";

/** V0 settings (platform.md sections 2.1 and 4.1, app-server.md section 5 "V0 settings"). */
export function settingsRoutes(app: App, { settings }: Pick<HttpServices, "settings">): void {
  const route = makeRoute(["settings"], { errors: "error" });
  app.get(
    "/api/settings",
    route("Load settings", { operationId: "load_settings", response: { 200: SettingsView } }),
    async (request, reply) => {
      return sendJson(reply, JSON.stringify(await settings.view(request.principal.userId)));
    },
  );
  app.post(
    "/api/settings",
    {
      preValidation: refuseUnknownSettings(SettingsUpdate),
      ...route("Store settings; absent fields keep their values, and unknown ones are refused", {
        body: SettingsUpdate,
        response: { 200: Type.Object({ message: Type.String() }) },
      }),
    },
    async (request) => {
      await settings.update(request.principal.userId, request.body);
      return { message: "Settings stored" };
    },
  );
  app.post("/api/reset-settings", route("Removed: settings cannot be reset", {}, { failures: [410] }), () => {
    throw new PlatformError("SettingsResetRemoved");
  });
}
