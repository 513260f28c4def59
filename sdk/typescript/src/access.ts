/** Reads the address and token of the judge proxy from the environment. */

import { JudgeNotAvailableError } from "./errors.js";

export const URL_VARIABLE = "AGENTV_JUDGE_PROXY_URL";
export const TOKEN_VARIABLE = "AGENTV_JUDGE_PROXY_TOKEN";

export interface Access {
  readonly host: string;
  readonly port: number;
  readonly token: string;
}

export type Environment = Readonly<Record<string, string | undefined>>;

const HOSTS = new Map([
  ["127.0.0.1", "127.0.0.1"],
  ["localhost", "127.0.0.1"],
  ["[::1]", "::1"],
]);

/** The judge access set in the environment, or `undefined` if judge access is off. */
export function readAccess(env: Environment): Access | undefined {
  const url = env[URL_VARIABLE];
  if (!url) return undefined;
  const { host, port } = parseUrl(url);
  const token = env[TOKEN_VARIABLE];
  if (!token) {
    throw new JudgeNotAvailableError(
      `${URL_VARIABLE} is set but ${TOKEN_VARIABLE} is not, so the judge proxy would reject every call; ` +
        "pass both variables to the process that calls the judge",
      { code: "missing_token" },
    );
  }
  if (!/^[!-~]+$/.test(token)) {
    throw new JudgeNotAvailableError(
      `${TOKEN_VARIABLE} contains characters that are not allowed in a token; pass it exactly as agentv set it`,
      { code: "invalid_token" },
    );
  }
  return { host, port, token };
}

export function urlOf({ host, port }: Access): string {
  return host.includes(":") ? `http://[${host}]:${port}` : `http://${host}:${port}`;
}

/**
 * Host and port of `http://127.0.0.1:PORT`. URLs that could send the token elsewhere are rejected. `new URL` is not used
 * because it normalizes its input (`http://2130706433:80`, blanks, line breaks).
 */
function parseUrl(url: string): { host: string; port: number } {
  const parts = /^http:\/\/(127\.0\.0\.1|localhost|\[::1\]):([0-9]{1,5})\/?$/i.exec(url);
  const host = HOSTS.get(parts?.[1]?.toLowerCase() ?? "");
  const port = Number(parts?.[2]);
  if (host === undefined || !(port > 0 && port < 65536)) {
    const shown = JSON.stringify(url.slice(url.lastIndexOf("@") + 1));
    throw new JudgeNotAvailableError(
      `${URL_VARIABLE} must be http://127.0.0.1:PORT (or localhost or [::1]), got ${shown}; ` +
        "unset it to turn judge access off, or pass it exactly as agentv set it",
      { code: "invalid_url" },
    );
  }
  return { host, port };
}
