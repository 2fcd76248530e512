// The client protocol (PROTOCOL.md) for adapters in Node: lines in, lines out, and the published error codes.
//
// Owns standard input and output and the codes. Must not know any lock library. An adapter is an object with `init`,
// `acquire`, `release` and what else its library has, given to `serve`. Requests of one worker run one after the other,
// but for `work`, beside which `extend` may run.
'use strict';
const fs = require('fs');
const os = require('os');
const path = require('path');
const readline = require('readline');
const { createRequire } = require('module');

const REFUSED = ['connection-refused', 'not-sent', 'moved', 'readonly', 'noreplicas', 'oom', 'misconf', 'loading',
  'clusterdown', 'masterdown', 'noscript', 'busy', 'noauth'];
const NOTHING_SENT = ['unsupported', 'bad-request', 'not-initialised'];
// Codes that say, by operation, that it certainly had no effect (the error table of PROTOCOL.md). All others are doubt.
const DEFINITE = {
  acquire: new Set([...REFUSED, ...NOTHING_SENT, 'held', 'too-late', 'no-quorum']),
  release: new Set([...NOTHING_SENT, 'not-owner', 'not-held']),
  extend: new Set([...NOTHING_SENT, 'not-owner', 'not-held', 'lease-over']),
};
const SERVER_ERRORS = {
  MOVED: 'moved', ASK: 'moved', READONLY: 'readonly', NOREPLICAS: 'noreplicas', OOM: 'oom', MISCONF: 'misconf',
  LOADING: 'loading', CLUSTERDOWN: 'clusterdown', TRYAGAIN: 'clusterdown', MASTERDOWN: 'masterdown',
  NOSCRIPT: 'noscript', BUSY: 'busy', NOAUTH: 'noauth', WRONGPASS: 'noauth', NOPERM: 'noauth',
};

// Longest wait for a first server.
const NO_SERVER_MS = 20000;

/** An operation that is not ok, with a code of the error table. */
class Refused extends Error {
  constructor(code, message) {
    super(message || code);
    this.code = code;
  }
}

/** The value of `--version`, or the default. */
function version(fallback) {
  const at = process.argv.indexOf('--version');
  return at > 0 && process.argv[at + 1] ? process.argv[at + 1] : fallback;
}

/** `require` inside the cache's folder of this adapter and version; refuses `init` where it is not installed. */
function library(adapter, wanted) {
  const base = process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache');
  const cache = process.env.FENCEPOST_ADAPTERS || path.join(base, 'fencepost', 'adapters');
  const folder = path.join(cache, 'node', `${adapter}-${wanted}`);
  if (fs.existsSync(path.join(folder, '.installed'))) return createRequire(path.join(folder, 'package.json'));
  const why = `${adapter} ${wanted} is not in ${folder}: adapters/setup node installs it`;
  serve({ init: async () => { throw new Refused('unsupported', why); } });
  return null;
}

/** The version in a package's own package.json, which its `exports` may hide from `require`. */
function versionOf(require, name) {
  const folder = require.resolve.paths(name)[0];
  return JSON.parse(fs.readFileSync(path.join(folder, name, 'package.json'), 'utf8')).version.replace(/^v/, '');
}

/** The code of an ioredis error, by its words. */
function codeOf(error) {
  if (error instanceof Refused) return error.code;
  const message = String((error && error.message) || error);
  const first = message.split(/[\s:]/)[0];
  if (SERVER_ERRORS[first]) return SERVER_ERRORS[first];
  if (/isn't writeable/.test(message)) return 'not-sent';
  if (/ECONNREFUSED/.test(message)) return 'connection-refused';
  if (/timed out|timeout|ETIMEDOUT/i.test(message)) return 'timeout';
  if (/ECONNRESET|EPIPE|Connection is closed|max retries per request/i.test(message)) return 'connection-reset';
  if (error && error.name === 'ReplyError') return 'server-error';
  return 'crash';
}

/** The code of a failed try on several nodes, from the driver's errors: doubt as soon as one may have acted. */
function quorumCode(errors, nodes) {
  if (errors.some((error) => !REFUSED.includes(codeOf(error)))) return 'no-quorum-unclean';
  return nodes === 1 && errors.length === 0 ? 'held' : 'no-quorum';
}

/** An ioredis client of each node, connected: one try a command unless `options.retries` says otherwise. */
async function clients(Redis, init) {
  const retries = init.options.retries || 0;
  const all = init.nodes.map((node) => {
    const at = node.lastIndexOf(':');
    const client = new Redis({
      host: node.slice(0, at).replace(/^\[|\]$/g, ''),
      port: Number(node.slice(at + 1)),
      commandTimeout: init.node_timeout_ms,
      connectTimeout: init.node_timeout_ms,
      maxRetriesPerRequest: retries,
      autoResendUnfulfilledCommands: retries > 0,
      enableOfflineQueue: retries > 0,
      retryStrategy: () => 50,
    });
    client.on('error', (error) => console.error(`${node}: ${error.message}`));
    return client;
  });
  const ready = all.map((client) => new Promise((resolve) => client.once('ready', resolve)));
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms).unref());
  // A node that is down now may be up later, but with none at all nothing can be asked.
  await Promise.race([Promise.all(ready), pause(2 * init.node_timeout_ms)]);
  await Promise.race([...ready, pause(NO_SERVER_MS).then(() => {
    throw new Refused('timeout', 'no server is ready');
  })]);
  return all;
}

/** Lines that wait for standard output; a pipe that is full takes them later, in order. */
function write(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** The library told its user that the lock is gone. */
function lost(worker, key) {
  write({ type: 'lost', worker, key });
}

async function attempt(adapter, op, request) {
  try {
    return { type: 'ok', ...(await call(adapter, op, request)) };
  } catch (error) {
    const code = codeOf(error);
    const definite = !DEFINITE[op] || DEFINITE[op].has(code);
    return { type: definite ? 'fail' : 'info', error: code, message: String((error && error.message) || error) };
  }
}

async function call(adapter, op, request) {
  const { worker = 0, key } = request;
  if (op === 'init') return { value: await adapter.init(request) };
  if (op === 'close') return adapter.close ? (await adapter.close(), {}) : {};
  if (op === 'work') return new Promise((resolve) => setTimeout(() => resolve({}), request.ms));
  if (!adapter[op]) throw new Refused('unsupported', `this library has no \`${op}\``);
  if (op === 'acquire') return { value: await adapter.acquire(worker, key, request.wait_ms || 0) };
  if (op === 'extend') return { value: (await adapter.extend(worker, key, request.ttl_ms)) || {} };
  if (op === 'held') return { value: { held: Boolean(await adapter.held(worker, key)) } };
  await adapter.release(worker, key);
  return {};
}

/** Serve until `close` or the end of standard input. */
function serve(adapter) {
  const chains = new Map();
  let ready = false;
  const lines = readline.createInterface({ input: process.stdin, crlfDelay: Infinity });
  const answer = async (op, request) => {
    const called = performance.now();
    const said = await attempt(adapter, op, request);
    said.took_ms = performance.now() - called;
    ready = ready || (op === 'init' && said.type === 'ok');
    write({ id: request.id, ...said });
    if (op === 'close') process.stdout.write('', () => process.exit(0));
  };
  lines.on('line', (line) => {
    let request;
    if (!line.trim()) return;
    try {
      request = JSON.parse(line);
    } catch (error) {
      write({ type: 'fail', error: 'bad-request', message: error.message });
      return;
    }
    const { id, op } = request;
    if (op === 'init' || op === 'close' || (ready && op === 'work')) answer(op, request);
    else if (op === 'tick') write({ id, type: 'ok' });
    else if (!ready) write({ id, type: 'fail', error: 'not-initialised' });
    else if (['acquire', 'release', 'extend', 'held'].includes(op)) {
      const before = chains.get(request.worker) || Promise.resolve();
      chains.set(request.worker, before.then(() => answer(op, request)));
    } else write({ id, type: 'fail', error: 'unsupported' });
  });
  lines.on('close', () => process.exit(0));
}

module.exports = { Refused, clients, codeOf, library, lost, quorumCode, serve, version, versionOf };
