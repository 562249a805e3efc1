import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `npm run dev` shows pages as they are edited, with the data of a plane that runs beside it.
const plane = process.env.ORRERY_SERVER ?? "http://127.0.0.1:2746";

export default defineConfig({
  plugins: [react()],
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: { proxy: { "/api/v1": { target: plane, ws: true }, "/login": plane, "/logout": plane } },
});
