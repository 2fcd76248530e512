import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.KeeperException;

/**
 * Curator's InterProcessMutex on ZooKeeper: a mutex an attempt, all of them in the one session of this process, whose
 * timeout is the lease. The client renews it by itself and tells when it is over; it claims no validity. The owner is the
 * name of the mutex's node without its number, the token the transaction that created it.
 *
 * <p>Options: `retries` (of the client).
 */
final class CuratorAdapter implements Fencepost.Adapter {
    /** Shows the name of its node, which it tells those who extend it. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }

    private final Fencepost.Held<Mutex> held = new Fencepost.Held<>();
    private final Set<String> folders = ConcurrentHashMap.newKeySet();
    private Fencepost.Init init;
    private CuratorFramework client;

    public static void main(String[] args) throws Exception {
        Fencepost.serve(new CuratorAdapter());
    }

    @Override
    public Map<String, Object> init(Fencepost.Init init) throws Exception {
        this.init = init;
        int retries = init.number("retries");
        client = CuratorFrameworkFactory.builder().connectString(String.join(",", init.nodes))
                .sessionTimeoutMs((int) init.ttl_ms).connectionTimeoutMs(init.node_timeout_ms)
                .retryPolicy(new RetryNTimes(retries, (int) init.retry_ms)).build();
        client.getConnectionStateListenable().addListener((c, state) -> {
            if (state == ConnectionState.LOST) {
                held.each(Fencepost::lost);
            }
        });
        client.start();
        client.blockUntilConnected(10, TimeUnit.SECONDS);
        return Fencepost.value("library", "Curator InterProcessMutex", "version",
                Fencepost.versionOf("curator-recipes"), "driver", "zookeeper " + Fencepost.versionOf("zookeeper"),
                "retries", retries, "promises_notice", true);
    }

    /** The folder of a key's nodes. Curator makes one that ZooKeeper removes when it is empty; this one has to stay. */
    private String folder(String key) throws Exception {
        String path = "/fencepost/" + (init.prefix + key).replace('/', '|');
        if (!folders.contains(path)) {
            try {
                client.create().creatingParentsIfNeeded().forPath(path);
            } catch (KeeperException.NodeExistsException error) {
                // Another client made it.
            }
            folders.add(path);
        }
        return path;
    }

    @Override
    public Map<String, Object> acquire(int worker, String key, long waitMs) throws Exception {
        held.remove(worker, key);
        try {
            Mutex mutex = new Mutex(client, folder(key));
            if (!mutex.acquire(waitMs, TimeUnit.MILLISECONDS)) {
                throw new Fencepost.Refused("held", "acquire said false");
            }
            held.put(worker, key, mutex);
            String node = mutex.node();
            String name = node.substring(node.lastIndexOf('/') + 1, node.lastIndexOf('-'));
            return Fencepost.value("owner", name, "token", client.checkExists().forPath(node).getCzxid());
        } catch (KeeperException.SessionExpiredException error) {
            throw new Fencepost.Refused("session-lost", error.getMessage());
        }
    }

    @Override
    public void release(int worker, String key) throws Exception {
        try {
            held.get(worker, key).release();
        } catch (IllegalMonitorStateException error) {
            throw new Fencepost.Refused("not-held", error.getMessage());
        }
        held.remove(worker, key);
    }

    @Override
    public boolean held(int worker, String key) {
        Mutex mutex = held.find(worker, key);
        return mutex != null && mutex.isOwnedByCurrentThread();
    }
}
