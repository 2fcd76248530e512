import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.springframework.integration.redis.util.RedisLockRegistry;

/**
 * Spring Integration's RedisLockRegistry, on Lettuce: one registry, one try. It claims no validity. The value in the key
 * is the registry's, the same for every attempt, and private: it is read by reflection.
 */
final class SpringRegistryAdapter implements Fencepost.Adapter {
    private final Fencepost.Held<Lock> held = new Fencepost.Held<>();
    private Fencepost.Init init;
    private RedisLockRegistry registry;
    private String owner;

    public static void main(String[] args) throws Exception {
        Fencepost.serve(new SpringRegistryAdapter());
    }

    @Override
    public Map<String, Object> init(Fencepost.Init init) throws Exception {
        this.init = init;
        if (!init.prefix.endsWith(":")) {
            throw new Fencepost.Refused("unsupported", "it puts `:` between its registry key and the lock's");
        }
        String registryKey = init.prefix.substring(0, init.prefix.length() - 1);
        registry = new RedisLockRegistry(Lettuce.connect(init), registryKey, init.ttl_ms);
        var field = RedisLockRegistry.class.getDeclaredField("clientId");
        field.setAccessible(true);
        owner = (String) field.get(registry);
        return Fencepost.value("library", "Spring Integration RedisLockRegistry", "version",
                Fencepost.versionOf("spring-integration-redis"), "driver",
                "Lettuce " + Fencepost.versionOf("lettuce-core"), "retries", Lettuce.RETRIES);
    }

    @Override
    public Map<String, Object> acquire(int worker, String key, long waitMs) throws Exception {
        Lock lock = registry.obtain(key);
        held.remove(worker, key);
        if (!lock.tryLock(waitMs, TimeUnit.MILLISECONDS)) {
            throw new Fencepost.Refused("held", "tryLock said false");
        }
        held.put(worker, key, lock);
        return Fencepost.value("owner", owner);
    }

    @Override
    public void release(int worker, String key) {
        Lock lock = held.get(worker, key);
        try {
            lock.unlock();
        } catch (java.util.ConcurrentModificationException error) {
            held.remove(worker, key);
            throw new Fencepost.Refused("not-owner", error.getMessage());
        } catch (IllegalStateException error) {
            String message = String.valueOf(error.getMessage());
            boolean servers = message.contains("released in the store") || message.contains("expir");
            throw new Fencepost.Refused(servers ? "not-owner" : "not-held", message);
        }
        held.remove(worker, key);
    }

    @Override
    public Map<String, Object> extend(int worker, String key, long ttlMs) {
        held.get(worker, key);
        if (ttlMs != init.ttl_ms) {
            throw new Fencepost.Refused("unsupported", "the lease is the registry's: it cannot be another");
        }
        try {
            registry.renewLock(key);
        } catch (IllegalStateException error) {
            throw new Fencepost.Refused("not-owner", error.getMessage());
        }
        return null;
    }
}
