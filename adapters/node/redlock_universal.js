// redlock-universal on ioredis: its SimpleLock on one node, its RedLock on several; one try. It claims no validity.
//
// It swallows what single nodes answer, so each worker's client is watched for rejections.
// Options: `retries` (of the driver), `circuit_breaker` (false: without).
'use strict';
const fencepost = require('./fencepost');

const require_ = fencepost.library('redlock_universal', fencepost.version('0.8.5'));

/** The client, with every rejection noted. */
function watched(client, note) {
  return new Proxy(client, {
    get(target, name) {
      const value = target[name];
      if (typeof value !== 'function') return value;
      return (...args) => {
        const result = value.apply(target, args);
        if (result && typeof result.catch === 'function') {
          // The driver answers NOSCRIPT itself, by sending the text.
          result.catch((error) => { if (!/^NOSCRIPT/.test(error.message)) note(error); });
        }
        return result;
      };
    },
  });
}

function adapter(universal) {
  let init;
  let nodes;
  const workers = new Map();
  const held = new Map();

  const worker = (number) => {
    if (!workers.has(number)) {
      const state = { errors: [], locks: new Map() };
      const note = (error) => state.errors.push(error);
      state.adapters = nodes.map((node) => {
        const timeout = init.node_timeout_ms;
        return new universal.IoredisAdapter(watched(node, note), { maxRetries: 0, timeout });
      });
      workers.set(number, state);
    }
    const state = workers.get(number);
    state.errors.length = 0;
    return state;
  };
  const lockOf = (state, name) => {
    if (!state.locks.has(name)) {
      const common = { key: name, ttl: init.ttl_ms, retryAttempts: 0, retryDelay: init.retry_ms };
      const single = { ...common, adapter: state.adapters[0] };
      if (init.options.circuit_breaker === false) single.circuitBreaker = false;
      const several = { ...common, adapters: state.adapters };
      const lock = nodes.length === 1 ? universal.createLock(single) : universal.createRedlock(several);
      state.locks.set(name, lock);
    }
    return state.locks.get(name);
  };
  const grant = (number, key) => {
    const handle = held.get(`${number} ${key}`);
    if (!handle) throw new fencepost.Refused('not-held');
    return handle;
  };

  return {
    async init(request) {
      init = request;
      nodes = await fencepost.clients(require_('ioredis'), init);
      return {
        library: 'redlock-universal',
        version: fencepost.versionOf(require_, 'redlock-universal'),
        driver: `ioredis ${fencepost.versionOf(require_, 'ioredis')}`,
        retries: init.options.retries || 0,
      };
    },

    async acquire(number, key, wait) {
      if (wait) throw new fencepost.Refused('unsupported', 'it counts its tries, not its time');
      const state = worker(number);
      held.delete(`${number} ${key}`);
      try {
        const handle = await lockOf(state, init.prefix + key).acquire();
        held.set(`${number} ${key}`, handle);
        return { owner: handle.value };
      } catch (error) {
        const open = /[Cc]ircuit breaker/.test(`${error.message} ${error.cause && error.cause.message}`);
        const code = open ? 'not-sent' : fencepost.quorumCode(state.errors, nodes.length);
        throw new fencepost.Refused(code, error.message);
      }
    },

    async release(number, key) {
      const handle = grant(number, key);
      const state = worker(number);
      await judged(state, () => lockOf(state, init.prefix + key).release(handle));
      held.delete(`${number} ${key}`);
    },

    async extend(number, key, ttl) {
      const handle = grant(number, key);
      const state = worker(number);
      await judged(state, () => lockOf(state, init.prefix + key).extend(handle, ttl));
    },
  };
}

/** It says false, or throws, when the servers do not agree, and throws when they do not answer. */
async function judged(state, call) {
  let done = false;
  let why = '';
  try {
    done = await call();
  } catch (error) {
    why = error.message;
  }
  if (!done) throw new fencepost.Refused(state.errors.length ? 'no-quorum-unclean' : 'not-owner', why);
}

if (require_) fencepost.serve(adapter(require_('redlock-universal')));
