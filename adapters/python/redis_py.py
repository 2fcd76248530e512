"""redis-py's Lock: one handle an attempt, one try, no driver retries unless `options.retries` says so.

`drop` lets go of the handle.
Options: `retries` (of the driver), `no_ttl` (a lock without a lease: true says timeout=0, "none" timeout=None), `class`
(`Lock` or, before 3.0, `LuaLock`).
"""
import gc

import fencepost

fencepost.use("redis_py", "8.1.0")
import redis
import redis.exceptions
import redis.lock


class Adapter:
    def init(self, init):
        self.settings, self.handles = init, {}
        self.client = fencepost.redis_client(redis, init)
        fencepost.warm_up([self.client])
        self.lock_class = getattr(redis.lock, init["options"].get("class", "Lock"))
        version = fencepost.version_of("redis")
        return {"library": "redis-py", "version": version, "driver": f"redis-py {version}",
                "retries": fencepost.retries(init)}

    def code_of(self, error):
        return fencepost.code_of(error, resent=fencepost.retries(self.settings) > 0)

    def acquire(self, worker, key, wait):
        ttl = self.settings["ttl_ms"]
        endless = self.settings["options"].get("no_ttl")
        timeout = ttl / 1000 if not endless else None if endless == "none" else 0
        sleep = min(self.settings["retry_ms"], ttl) / 1000
        handle = self.lock_class(self.client, self.settings["prefix"] + key, timeout=timeout, sleep=sleep)
        self.handles[worker, key] = handle
        if not handle.acquire(blocking=wait > 0, blocking_timeout=wait or None):
            raise fencepost.Refused("held")
        return {"owner": handle.local.token.decode()}

    def handle(self, worker, key):
        if (worker, key) not in self.handles:
            raise fencepost.Refused("not-held")
        return self.handles[worker, key]

    def release(self, worker, key):
        with translated():
            self.handle(worker, key).release()

    def extend(self, worker, key, ttl):
        handle = self.handle(worker, key)
        if not hasattr(handle, "reacquire"):
            raise fencepost.Refused("unsupported", "this version can only add to what is left")
        with translated():
            if ttl == self.settings["ttl_ms"]:
                handle.reacquire()
            else:
                handle.extend(ttl / 1000, replace_ttl=True)

    def drop(self, worker, key):
        self.handles.pop((worker, key), None)
        gc.collect()

    def held(self, worker, key):
        handle = self.handles.get((worker, key))
        if handle is None:
            return False
        return handle.owned() if hasattr(handle, "owned") else handle.local.token is not None


class translated:
    """LockNotOwnedError (before 3.0 only a text) is the servers' word, any other LockError the library's own."""

    def __enter__(self):
        pass

    def __exit__(self, kind, error, trace):
        if isinstance(error, redis.exceptions.LockError):
            if "no timeout" in str(error):
                raise fencepost.Refused("unsupported", str(error))
            theirs = type(error).__name__ == "LockNotOwnedError" or "no longer owned" in str(error)
            raise fencepost.Refused("not-owner" if theirs else "not-held", str(error))


if __name__ == "__main__":
    fencepost.serve(Adapter())
