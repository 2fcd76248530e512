"""pottery's Redlock: one try, on all nodes; one object an attempt. It claims no validity on acquire.

`drop` lets go of the object as a function does that returns without it.
"""
import gc
import os
import sys

import fencepost

# This file has the library's name: the import below must not find it again.
sys.path[:] = [p for p in sys.path if os.path.realpath(p or ".") != os.path.dirname(os.path.realpath(__file__))]
VERSION = fencepost.use("pottery", "3.0.1")
import redis
from pottery import Redlock
from pottery.exceptions import ExtendUnlockedLock, ReleaseUnlockedLock

SEEN = fencepost.Seen()
MODERN = int(VERSION.split(".")[0]) >= 3  # seconds; before: milliseconds


class Named(Redlock):
    """The key as the harness names it, without pottery's own prefix, so that the observer finds it."""

    @property
    def key(self):
        return self._plain_key

    @key.setter
    def key(self, value):
        self._plain_key = value


class Adapter:
    def init(self, init):
        self.settings, self.handles = init, {}
        client = fencepost.watched(redis.Redis, SEEN)
        self.masters = [fencepost.redis_client(redis, init, n, client) for n in range(len(init["nodes"]))]
        fencepost.warm_up(self.masters)
        return {"library": "pottery", "version": fencepost.version_of("pottery"),
                "driver": f"redis-py {fencepost.version_of('redis')}", "retries": fencepost.retries(init)}

    def acquire(self, worker, key, wait):
        name, ttl = self.settings["prefix"] + key, self.settings["ttl_ms"]
        SEEN.begin(name)
        # It counts its extensions and refuses the fourth by default.
        handle = Named(key=name, masters=set(self.masters), auto_release_time=ttl / 1000 if MODERN else ttl,
                       num_extensions=1 << 30)
        self.handles[worker, key] = handle
        granted = handle.acquire(timeout=wait) if wait else handle.acquire(blocking=False)
        if not granted:
            nodes = len(self.masters)
            raise fencepost.Refused(fencepost.quorum_code(SEEN.of(name), not SEEN.of(name), nodes))
        return {"owner": handle._uuid if MODERN else handle._value.decode(errors="replace")}

    def ask(self, worker, key, call):
        if (worker, key) not in self.handles:
            raise fencepost.Refused("not-held")
        name = self.settings["prefix"] + key
        SEEN.begin(name)
        try:
            return call(self.handles[worker, key])
        except (ExtendUnlockedLock, ReleaseUnlockedLock) as error:
            # It says so too when nobody answered.
            code = "no-quorum-unclean" if SEEN.of(name) else "not-owner"
            raise fencepost.Refused(code, type(error).__name__)

    def release(self, worker, key):
        self.ask(worker, key, lambda handle: handle.release())

    def extend(self, worker, key, ttl):
        if ttl != self.settings["ttl_ms"]:
            raise fencepost.Refused("unsupported", "the lease is the object's: it cannot be another")
        self.ask(worker, key, lambda handle: handle.extend())

    def drop(self, worker, key):
        self.handles.pop((worker, key), None)
        gc.collect()

    def held(self, worker, key):
        handle = self.handles.get((worker, key))
        return handle is not None and handle.locked() > 0


if __name__ == "__main__":
    fencepost.serve(Adapter())
