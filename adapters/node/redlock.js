// npm `redlock` 3, 4 and 5 (node-redlock), on ioredis.
//
// Options: `retry_count` (of the library), `retries` (of the driver).
'use strict';
const fencepost = require('./fencepost');
const { adapter } = require('./quorum');

const version = fencepost.version('5.0.0-beta.2');
const require_ = fencepost.library('redlock', version);
if (require_) {
  const modern = Number(version.split('.')[0]) >= 5;
  const Redlock = modern ? require_('redlock').default : require_('redlock');
  fencepost.serve(adapter({
    name: 'redlock',
    require: require_,
    make: (clients, settings) => new Redlock(clients, settings),
    errors: modern ? 'error' : 'clientError',
    resource: (name) => (modern ? [name] : name),
    acquire: (redlock, resource, ttl) => (modern ? redlock.acquire(resource, ttl) : redlock.lock(resource, ttl)),
    release: (lock) => (modern ? lock.release() : lock.unlock()),
  }));
}
