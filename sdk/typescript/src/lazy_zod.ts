/** `z` of zod, which AgentV's SDKs export. zod is loaded when it is used, so that scripts without it need no package. */

import { createRequire } from "node:module";

let loaded: Record<PropertyKey, unknown> | undefined;

function load(): Record<PropertyKey, unknown> {
  try {
    loaded ??= (createRequire(import.meta.url)("zod") as { z: Record<PropertyKey, unknown> }).z;
  } catch (error) {
    throw new Error("`z` of @agentv/eval needs the package zod; install it: npm install zod", { cause: error });
  }
  return loaded;
}

// The types of zod are in `@agentv/eval/zod`: here they would make zod a dependency.
export const z: any = new Proxy({}, { get: (_, name) => load()[name], has: (_, name) => name in load() });
