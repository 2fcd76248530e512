// What node-redlock of all ages and its fork share as adapters: one Redlock object a worker, so that the errors that it
// emits belong to that worker's call; one try unless `options.retry_count` says otherwise.
//
// Owns the translation. Must not know which library it is: that comes as `spec`.
'use strict';
const fencepost = require('./fencepost');

/**
 * spec: `name` of the library; `require` in its folder; `make(clients, settings)` a Redlock object; `errors` the event
 * with single nodes' errors; `resource(name)` what acquire takes; `acquire(redlock, resource, ttl)`; `release(lock)`.
 */
function adapter(spec) {
  let init;
  let nodes;
  const workers = new Map();
  const held = new Map();

  const worker = (number) => {
    if (!workers.has(number)) {
      const settings = {
        retryCount: init.options.retry_count || 0,
        retryDelay: init.retry_ms,
        retryJitter: Math.floor(init.retry_ms / 2),
      };
      const redlock = spec.make(nodes, settings);
      const state = { redlock, errors: [] };
      // A vote against that the servers answered is no error of the driver.
      redlock.on(spec.errors, (error) => {
        if (error.name !== 'ResourceLockedError') state.errors.push(error);
      });
      workers.set(number, state);
    }
    const state = workers.get(number);
    state.errors = [];
    return state;
  };
  const place = (number, key) => `${number} ${key}`;
  const grant = (number, key) => {
    const lock = held.get(place(number, key));
    if (!lock) throw new fencepost.Refused('not-held');
    return lock;
  };
  /** All votes are in, so that what a late node did is known. */
  const settled = async (error) => {
    if (Array.isArray(error.attempts)) await Promise.allSettled(error.attempts);
  };

  return {
    async init(request) {
      init = request;
      nodes = await fencepost.clients(spec.require('ioredis'), init);
      return {
        library: spec.name,
        version: fencepost.versionOf(spec.require, spec.name),
        driver: `ioredis ${fencepost.versionOf(spec.require, 'ioredis')}`,
        retries: init.options.retries || 0,
      };
    },

    async acquire(number, key, wait) {
      if (wait) throw new fencepost.Refused('unsupported', 'it counts its tries, not its time');
      const { redlock, errors } = worker(number);
      held.delete(place(number, key));
      try {
        const lock = await spec.acquire(redlock, spec.resource(init.prefix + key), init.ttl_ms);
        held.set(place(number, key), lock);
        return { owner: lock.value, validity_ms: lock.expiration - Date.now() };
      } catch (error) {
        await settled(error);
        throw new fencepost.Refused(fencepost.quorumCode(errors, nodes.length), error.message);
      }
    },

    async release(number, key) {
      const lock = grant(number, key);
      const { errors } = worker(number);
      try {
        await spec.release(lock);
      } catch (error) {
        await settled(error);
        throw new fencepost.Refused(errors.length ? 'no-quorum-unclean' : 'not-owner', error.message);
      }
      held.delete(place(number, key));
    },

    async extend(number, key, ttl) {
      const lock = grant(number, key);
      const { errors } = worker(number);
      try {
        const longer = await lock.extend(ttl);
        held.set(place(number, key), longer);
        return { validity_ms: longer.expiration - Date.now() };
      } catch (error) {
        await settled(error);
        const over = /already(-| has already )?.*expired/.test(error.message);
        const code = errors.length ? 'no-quorum-unclean' : over ? 'lease-over' : 'not-owner';
        throw new fencepost.Refused(code, error.message);
      }
    },

    async held(number, key) {
      const lock = held.get(place(number, key));
      return lock !== undefined && lock.expiration > Date.now();
    },
  };
}

module.exports = { adapter };
