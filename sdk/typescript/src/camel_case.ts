/** The spelling of keys in AgentV's SDKs: `tool_calls` is `toolCalls`, and a key that starts with a capital is kept. */

export function toCamelCase(key: string): string {
  return /^[A-Z]/.test(key) ? key : key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** A copy of a JSON value with every key in camelCase, at every depth. */
export function camelCaseDeep(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCaseDeep);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [toCamelCase(key), camelCaseDeep(item)]));
}
