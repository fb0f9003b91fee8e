import { fileURLToPath } from "node:url";

/** @type {import("next").NextConfig} */
export default {
  // only because this example links `oracled-client` from a parent folder
  turbopack: { root: fileURLToPath(new URL("../..", import.meta.url)) },
};
