// Keeps a script of Node on this machine, and writes down which hosts it wanted: a line per host.
const dns = require("node:dns");
const fs = require("node:fs");
const net = require("node:net");

const isHere = (host) => host === "localhost" || host === "::1" || /^127\./.test(host);

function refuse(host) {
  fs.appendFileSync(process.env.GUARD_LOG, `host ${host}\n`);
  throw new Error(`the tests allow no connection to ${host}`);
}

fs.appendFileSync(process.env.GUARD_LOG, "guarded\n");
const connect = net.Socket.prototype.connect;
net.Socket.prototype.connect = function (...args) {
  const [first] = Array.isArray(args[0]) ? args[0] : args;
  const { host, path } = typeof first === "object" ? first : { host: args[1] };
  if (!path && !isHere(host ?? "localhost")) refuse(host);
  return connect.apply(this, args);
};
for (const api of [dns, dns.promises]) {
  const lookup = api.lookup;
  api.lookup = (host, ...rest) => (isHere(host) ? lookup(host, ...rest) : refuse(host));
}
