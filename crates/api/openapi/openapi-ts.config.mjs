// Node wants the endings of the files it imports.
export default {
  input: process.env.DOCUMENT,
  output: { path: "hey", module: { extension: ".js" } },
  plugins: ["@hey-api/client-fetch", "@hey-api/typescript", "@hey-api/sdk"],
};
