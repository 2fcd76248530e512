import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's RLock, RFencedLock and, on several nodes, RedLock: one try. It claims no validity. Its lock keys are hashes,
 * which the observer does not read: so `owner` is not told unless `options.owner` asks for it.
 *
 * <p>Options: `watchdog` (true: no lease of its own, the library renews it), `fenced` (true: RFencedLock, with its
 * token), `retries` (of the driver), `owner`.
 */
final class RedissonAdapter implements Fencepost.Adapter {
    private final List<RedissonClient> clients = new ArrayList<>();
    private final Fencepost.Held<RLock> held = new Fencepost.Held<>();
    private Fencepost.Init init;

    public static void main(String[] args) throws Exception {
        Fencepost.serve(new RedissonAdapter());
    }

    @Override
    public Map<String, Object> init(Fencepost.Init init) {
        this.init = init;
        if (init.truth("fenced") && init.nodes.size() > 1) {
            throw new Fencepost.Refused("unsupported", "an RFencedLock is on one node");
        }
        for (String node : init.nodes) {
            Config config = new Config();
            config.setLockWatchdogTimeout(init.ttl_ms);
            config.setThreads(4);
            config.setNettyThreads(4);
            config.useSingleServer().setAddress("redis://" + node).setTimeout(init.node_timeout_ms)
                    .setConnectTimeout(Math.max(init.node_timeout_ms, 1000)).setRetryAttempts(init.number("retries"))
                    .setConnectionMinimumIdleSize(2).setConnectionPoolSize(init.workers + 4)
                    .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(4);
            clients.add(Redisson.create(config));
        }
        String version = Fencepost.versionOf("redisson");
        return Fencepost.value("library", "Redisson", "version", version, "driver", "Redisson " + version, "retries",
                init.number("retries"), "promises_notice", init.truth("watchdog"));
    }

    private RLock lock(String name) throws ReflectiveOperationException {
        if (init.truth("fenced")) {
            // Not in the early versions.
            return (RLock) RedissonClient.class.getMethod("getFencedLock", String.class).invoke(clients.get(0), name);
        }
        if (clients.size() == 1) {
            return clients.get(0).getLock(name);
        }
        return new RedissonRedLock(clients.stream().map(c -> c.getLock(name)).toArray(RLock[]::new));
    }

    @Override
    public Map<String, Object> acquire(int worker, String key, long waitMs) throws Exception {
        RLock lock = lock(init.prefix + key);
        held.remove(worker, key);
        long lease = init.truth("watchdog") ? -1 : init.ttl_ms;
        Map<String, Object> value = Fencepost.value();
        if (init.truth("fenced")) {
            Object token = Class.forName("org.redisson.api.RFencedLock")
                    .getMethod("tryLockAndGetToken", long.class, long.class, TimeUnit.class)
                    .invoke(lock, waitMs, lease, TimeUnit.MILLISECONDS);
            if (token == null) {
                throw new Fencepost.Refused("held", "no token");
            }
            value.put("token", token);
        } else if (!lock.tryLock(waitMs, lease, TimeUnit.MILLISECONDS)) {
            // A RedLock hides what single nodes said, and whether it could undo what some granted.
            String code = clients.size() == 1 ? "held" : "no-quorum-unclean";
            throw new Fencepost.Refused(code, "tryLock said false");
        }
        held.put(worker, key, lock);
        if (init.truth("owner")) {
            value.put("owner", clients.get(0).getId() + ":" + Thread.currentThread().getId());
        }
        return value;
    }

    @Override
    public void release(int worker, String key) {
        try {
            held.get(worker, key).unlock();
        } catch (IllegalMonitorStateException error) {
            throw new Fencepost.Refused("not-owner", error.getMessage());
        }
        held.remove(worker, key);
    }

    @Override
    public boolean held(int worker, String key) {
        RLock lock = held.find(worker, key);
        return lock != null && lock.isHeldByCurrentThread();
    }
}
