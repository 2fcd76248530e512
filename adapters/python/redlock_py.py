"""redlock-py: one try, on all nodes. It swallows what single nodes answer, so the driver is watched for exceptions."""
import builtins

import fencepost

fencepost.use("redlock_py", "1.0.8")
builtins.basestring = str  # 1.0.2 and 1.0.3 were written for Python 2
import redis

SEEN = fencepost.Seen()
redis.StrictRedis = fencepost.watched(redis.Redis, SEEN)
import redlock


class Adapter:
    def init(self, init):
        self.settings, self.grants = init, {}
        from redis.backoff import NoBackoff
        from redis.retry import Retry
        seconds = init["node_timeout_ms"] / 1000
        nodes = [
            {"host": host, "port": port, "socket_timeout": seconds, "socket_connect_timeout": seconds,
             "retry": Retry(NoBackoff(), fencepost.retries(init))}
            for host, port in fencepost.addresses(init)
        ]
        # It cannot be told not to pause after its only try, but how long.
        self.locks = redlock.Redlock(nodes, retry_count=1, retry_delay=0.001)
        self.locks.quorum = len(nodes) // 2 + 1  # what the / of Python 2 gave in 1.0.2 and 1.0.3
        fencepost.warm_up(self.locks.servers)
        return {"library": "redlock-py", "version": fencepost.version_of("redlock-py"),
                "driver": f"redis-py {fencepost.version_of('redis')}", "retries": fencepost.retries(init)}

    def code_of(self, error):
        errors = getattr(error, "errors", None)  # MultipleRedlockException
        return "no-quorum-unclean" if errors else fencepost.code_of(error)

    def acquire(self, worker, key, wait):
        name = self.settings["prefix"] + key
        SEEN.begin(name)
        self.grants.pop((worker, key), None)
        grant = self.locks.lock(name, self.settings["ttl_ms"])
        if not grant:
            nodes = len(self.settings["nodes"])
            raise fencepost.Refused(fencepost.quorum_code(SEEN.of(name), not SEEN.of(name), nodes))
        self.grants[worker, key] = grant
        owner = grant.key.decode() if isinstance(grant.key, bytes) else grant.key
        return {"owner": owner, "validity_ms": float(grant.validity)}

    def release(self, worker, key):
        if (worker, key) not in self.grants:
            raise fencepost.Refused("not-held")
        self.locks.unlock(self.grants.pop((worker, key)))


if __name__ == "__main__":
    fencepost.serve(Adapter())
