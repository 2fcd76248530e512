// @sesamecare-oss/redlock, a fork of node-redlock 5, on ioredis.
//
// Options: `retry_count` (of the library), `retries` (of the driver).
'use strict';
const fencepost = require('./fencepost');
const { adapter } = require('./quorum');

const require_ = fencepost.library('sesamecare_redlock', fencepost.version('1.4.0'));
if (require_) {
  const { Redlock } = require_('@sesamecare-oss/redlock');
  fencepost.serve(adapter({
    name: '@sesamecare-oss/redlock',
    require: require_,
    make: (clients, settings) => new Redlock(clients, settings),
    errors: 'error',
    resource: (name) => [name],
    acquire: (redlock, resource, ttl) => redlock.acquire(resource, ttl),
    release: (lock) => lock.release(),
  }));
}
