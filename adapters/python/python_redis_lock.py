"""python-redis-lock: SET NX EX, a signal list for waiters, and a thread for renewal. Leases are whole seconds.

Options: `auto_renewal` (true: the library renews by itself).
"""
import fencepost

fencepost.use("python_redis_lock", "4.0.1")
import redis
import redis_lock


class Adapter:
    def init(self, init):
        if init["ttl_ms"] % 1000:
            raise fencepost.Refused("unsupported", "its leases are whole seconds: set `lock.ttl` to such")
        self.settings, self.handles = init, {}
        self.client = fencepost.redis_client(redis, init)
        fencepost.warm_up([self.client])
        return {"library": "python-redis-lock", "version": fencepost.version_of("python-redis-lock"),
                "driver": f"redis-py {fencepost.version_of('redis')}", "retries": fencepost.retries(init),
                "promises_notice": self.renews()}

    def renews(self):
        return bool(self.settings["options"].get("auto_renewal"))

    def acquire(self, worker, key, wait):
        name = self.settings["prefix"] + key
        handle = redis_lock.Lock(self.client, name, expire=self.settings["ttl_ms"] // 1000, auto_renewal=self.renews())
        handle._name = name  # without its own prefix, so that the observer finds the key
        self.handles[worker, key] = handle
        if wait and wait < 1:
            raise fencepost.Refused("unsupported", "it waits whole seconds")
        granted = handle.acquire(timeout=int(wait)) if wait else handle.acquire(blocking=False)
        if not granted:
            raise fencepost.Refused("held")
        return {"owner": handle.id}

    def handle(self, worker, key):
        if (worker, key) not in self.handles:
            raise fencepost.Refused("not-held")
        return self.handles[worker, key]

    def release(self, worker, key):
        try:
            self.handle(worker, key).release()
        except redis_lock.NotAcquired as error:
            raise fencepost.Refused("not-owner", str(error))

    def extend(self, worker, key, ttl):
        if ttl % 1000:
            raise fencepost.Refused("unsupported", "its leases are whole seconds")
        try:
            self.handle(worker, key).extend(expire=ttl // 1000)
        except (redis_lock.NotAcquired, redis_lock.NotExpirable) as error:
            raise fencepost.Refused("not-owner", str(error))

    def held(self, worker, key):
        return (worker, key) in self.handles and self.handles[worker, key]._held


if __name__ == "__main__":
    fencepost.serve(Adapter())
