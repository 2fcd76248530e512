import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/**
 * ShedLock's RedisLockProvider for Spring Data, on Lettuce: it tries once by design. It claims no validity, and the value
 * in the key is a time and a host name, the same for all its workers: it is not told as an owner.
 */
final class ShedLockAdapter implements Fencepost.Adapter {
    private final Fencepost.Held<SimpleLock> held = new Fencepost.Held<>();
    private Fencepost.Init init;
    private LettuceConnectionFactory connections;

    public static void main(String[] args) throws Exception {
        Fencepost.serve(new ShedLockAdapter());
    }

    @Override
    public Map<String, Object> init(Fencepost.Init init) {
        this.init = init;
        connections = Lettuce.connect(init);
        warmUp();
        return Fencepost.value("library", "ShedLock RedisLockProvider", "version",
                Fencepost.versionOf("shedlock-provider-redis-spring"), "driver",
                "Lettuce " + Fencepost.versionOf("lettuce-core"), "retries", Lettuce.RETRIES);
    }

    /** The first call of a new JVM takes up to half a second, and its lease runs meanwhile. No lock key is touched. */
    private void warmUp() {
        try {
            LockConfiguration once =
                    new LockConfiguration(Instant.now(), "warm-up", Duration.ofMillis(init.ttl_ms), Duration.ZERO);
            new RedisLockProvider(connections, "adapter", "shedlock").lock(once).ifPresent(SimpleLock::unlock);
        } catch (RuntimeException error) {
            System.err.println("warm-up: " + error);
        }
    }

    /** Its keys are `prefix:environment:name`: a provider a key, so that they are the harness's. */
    private RedisLockProvider provider(String full) {
        int last = full.lastIndexOf(':');
        int middle = full.lastIndexOf(':', last - 1);
        if (middle < 0) {
            throw new Fencepost.Refused("unsupported", "its keys have three parts with `:` between them");
        }
        return new RedisLockProvider(connections, full.substring(middle + 1, last), full.substring(0, middle));
    }

    @Override
    public Map<String, Object> acquire(int worker, String key, long waitMs) {
        if (waitMs > 0) {
            throw new Fencepost.Refused("unsupported", "it never waits");
        }
        String full = init.prefix + key;
        held.remove(worker, key);
        String name = full.substring(full.lastIndexOf(':') + 1);
        LockConfiguration configuration =
                new LockConfiguration(Instant.now(), name, Duration.ofMillis(init.ttl_ms), Duration.ZERO);
        Optional<SimpleLock> lock = provider(full).lock(configuration);
        if (lock.isEmpty()) {
            throw new Fencepost.Refused("held", "no lock");
        }
        held.put(worker, key, lock.get());
        return Fencepost.value();
    }

    @Override
    public void release(int worker, String key) {
        SimpleLock lock = held.get(worker, key);
        held.remove(worker, key);
        try {
            lock.unlock();
        } catch (IllegalStateException error) {
            throw new Fencepost.Refused("not-held", error.getMessage());
        }
    }

    @Override
    public Map<String, Object> extend(int worker, String key, long ttlMs) {
        Optional<SimpleLock> longer = held.get(worker, key).extend(Duration.ofMillis(ttlMs), Duration.ZERO);
        if (longer.isEmpty()) {
            throw new Fencepost.Refused("not-owner", "no lock to extend");
        }
        held.put(worker, key, longer.get());
        return null;
    }
}
