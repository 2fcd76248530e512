import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import java.util.function.Supplier;

/**
 * The client protocol (PROTOCOL.md) for adapters in Java: lines in, lines out, and the published error codes.
 *
 * <p>Owns standard input and output, threads and codes; knows no lock library. Each worker has one thread that makes all
 * of its lock calls, as locks that belong to a thread need it; `work` is a timer beside it, so that `extend` can come, and
 * `interrupt` comes from the thread that reads. `kill-thread` ends a worker's thread between two calls, whatever it holds:
 * its next call is made by another one. Java ends no thread inside of a call.
 */
final class Fencepost {
    private Fencepost() {}

    /** What an adapter is told before anything else. */
    static final class Init {
        List<String> nodes = new ArrayList<>();
        long ttl_ms;
        String prefix = "";
        long retry_ms;
        int node_timeout_ms;
        int workers;
        JsonObject options = new JsonObject();

        boolean truth(String name) {
            return options.has(name) && options.get(name).getAsBoolean();
        }

        int number(String name) {
            return options.has(name) ? options.get(name).getAsInt() : 0;
        }

        String text(String name, String fallback) {
            return options.has(name) ? options.get(name).getAsString() : fallback;
        }
    }

    /** An operation that is not ok, with a code of the error table. */
    static final class Refused extends RuntimeException {
        final String code;

        Refused(String code, String message) {
            super(message);
            this.code = code;
        }
    }

    /** A lock library behind the protocol. What it has not, it refuses. */
    interface Adapter {
        Map<String, Object> init(Init init) throws Exception;

        Map<String, Object> acquire(int worker, String key, long waitMs) throws Exception;

        void release(int worker, String key) throws Exception;

        default Map<String, Object> extend(int worker, String key, long ttlMs) throws Exception {
            throw new Refused("unsupported", "this library has no `extend`");
        }

        default boolean held(int worker, String key) throws Exception {
            throw new Refused("unsupported", "this library has no `held`");
        }
    }

    private static final Set<String> REFUSED = Set.of("connection-refused", "not-sent", "moved", "readonly",
            "noreplicas", "oom", "misconf", "loading", "clusterdown", "masterdown", "noscript", "busy", "noauth");
    private static final Set<String> NOTHING_SENT = Set.of("unsupported", "bad-request", "not-initialised");
    private static final Map<String, String> SERVER_ERRORS = Map.ofEntries(Map.entry("MOVED", "moved"),
            Map.entry("ASK", "moved"), Map.entry("READONLY", "readonly"), Map.entry("NOREPLICAS", "noreplicas"),
            Map.entry("OOM", "oom"), Map.entry("MISCONF", "misconf"), Map.entry("LOADING", "loading"),
            Map.entry("CLUSTERDOWN", "clusterdown"), Map.entry("TRYAGAIN", "clusterdown"),
            Map.entry("MASTERDOWN", "masterdown"), Map.entry("NOSCRIPT", "noscript"), Map.entry("BUSY", "busy"),
            Map.entry("NOAUTH", "noauth"), Map.entry("WRONGPASS", "noauth"), Map.entry("NOPERM", "noauth"));

    /** Whether the code says that this operation certainly had no effect (the error table of PROTOCOL.md). */
    private static boolean definite(String op, String code) {
        if (NOTHING_SENT.contains(code)) {
            return true;
        }
        switch (op) {
            case "acquire":
                return REFUSED.contains(code) || Set.of("held", "too-late", "no-quorum").contains(code);
            case "release":
                return Set.of("not-owner", "not-held").contains(code);
            case "extend":
                return Set.of("not-owner", "not-held", "lease-over").contains(code);
            default:
                return true;
        }
    }

    /** The code of a driver's exception, from its chain of causes. */
    static String codeOf(Throwable error) {
        for (Throwable e = error; e != null; e = e.getCause() == e ? null : e.getCause()) {
            if (e instanceof Refused) {
                return ((Refused) e).code;
            }
            String text = String.valueOf(e.getMessage());
            // A server's error stands at the beginning, or behind the driver's own words.
            for (String part : text.split("[:.] ?")) {
                String code = SERVER_ERRORS.get(part.trim().split(" ")[0]);
                if (code != null) {
                    return code;
                }
            }
            String name = e.getClass().getSimpleName();
            if (text.contains("Connection refused")) {
                return "connection-refused";
            }
            if (text.contains("Currently not connected") || text.contains("Unable to connect")) {
                return "not-sent";
            }
            if (name.contains("Timeout") || e instanceof TimeoutException) {
                return "timeout";
            }
            if (name.contains("Interrupted") || name.contains("Cancellation")) {
                return "interrupted";
            }
        }
        String all = String.valueOf(error);
        boolean connection = all.contains("Connection") || all.contains("onnection reset") || all.contains("closed");
        return connection ? "connection-reset" : "crash";
    }

    /** A value for an answer: `value("owner", x, "token", 3)`. */
    static Map<String, Object> value(Object... pairs) {
        Map<String, Object> value = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            value.put((String) pairs[i], pairs[i + 1]);
        }
        return value;
    }

    private static final Gson GSON = new Gson();
    private static PrintStream out;

    private static void write(Map<String, Object> line) {
        byte[] bytes = (GSON.toJson(line) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (out) {
            out.write(bytes, 0, bytes.length);
            out.flush();
        }
    }

    /** The library told its user that the lock is gone. */
    static void lost(int worker, String key) {
        write(value("type", "lost", "worker", worker, "key", key));
    }

    private interface Call {
        Map<String, Object> make() throws Exception;
    }

    private static boolean answer(long id, String op, Call call) {
        Map<String, Object> line = answered(id, op, call);
        write(line);
        return line.get("type").equals("ok");
    }

    private static Map<String, Object> answered(long id, String op, Call call) {
        Map<String, Object> line = value("id", id, "type", "ok");
        long called = System.nanoTime();
        try {
            Map<String, Object> value = call.make();
            if (value != null) {
                line.put("value", value);
            }
        } catch (Throwable error) {
            String code = codeOf(error);
            line.put("type", definite(op, code) ? "fail" : "info");
            line.put("error", code);
            line.put("message", String.valueOf(error));
        }
        line.put("took_ms", (System.nanoTime() - called) / 1e6);
        return line;
    }

    /** Serve until `close` or the end of standard input. */
    static void serve(Adapter adapter) throws Exception {
        out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false);
        // What a library prints belongs to the logs.
        System.setOut(System.err);
        Map<Integer, Worker> workers = new HashMap<>();
        ScheduledExecutorService timer = Executors.newScheduledThreadPool(2, Fencepost::thread);
        boolean ready = false;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonObject r;
            try {
                r = JsonParser.parseString(line).getAsJsonObject();
            } catch (RuntimeException error) {
                write(value("type", "fail", "error", "bad-request", "message", error.getMessage()));
                continue;
            }
            long id = r.get("id").getAsLong();
            String op = r.get("op").getAsString();
            int worker = r.has("worker") ? r.get("worker").getAsInt() : 0;
            String key = r.has("key") ? r.get("key").getAsString() : "";
            if (op.equals("init")) {
                Init init = GSON.fromJson(r, Init.class);
                ready |= answer(id, op, () -> adapter.init(init));
            } else if (op.equals("tick")) {
                answer(id, op, () -> null);
            } else if (op.equals("close")) {
                answer(id, op, () -> null);
                break;
            } else if (!ready) {
                answer(id, op, () -> {
                    throw new Refused("not-initialised", "init comes first");
                });
            } else if (op.equals("work")) {
                timer.schedule(() -> answer(id, op, () -> null), r.get("ms").getAsLong(), TimeUnit.MILLISECONDS);
            } else if (op.equals("interrupt")) {
                answer(id, op, () -> {
                    workers.computeIfAbsent(worker, n -> new Worker()).interrupt();
                    return null;
                });
            } else if (op.equals("kill-thread")) {
                answer(id, op, () -> {
                    if (workers.containsKey(worker)) {
                        workers.get(worker).end();
                    }
                    workers.remove(worker);
                    return null;
                });
            } else {
                workers.computeIfAbsent(worker, n -> new Worker())
                        .execute(() -> answered(id, op, () -> call(adapter, op, worker, key, r)));
            }
        }
        // Threads of the library and calls that hang keep no process.
        Runtime.getRuntime().halt(0);
    }

    /** A worker's thread. Only a call is interrupted: what came too late for one is not left for the next. */
    private static final class Worker {
        private final ExecutorService executor = Executors.newSingleThreadExecutor(Fencepost::thread);
        private final AtomicInteger open = new AtomicInteger();
        private Thread calling;

        void execute(Supplier<Map<String, Object>> call) {
            open.incrementAndGet();
            executor.execute(() -> {
                calling(Thread.currentThread());
                Map<String, Object> line = call.get();
                calling(null);
                // Before it is told: whoever was answered finds the worker at rest.
                open.decrementAndGet();
                write(line);
            });
        }

        /** The thread ends, whatever it holds. Asked only by the thread that reads, which is the one that gives it calls. */
        void end() throws InterruptedException {
            if (open.get() > 0) {
                throw new Refused("unsupported", "Java ends no thread inside of a call");
            }
            executor.shutdown();
            executor.awaitTermination(10, TimeUnit.SECONDS);
        }

        private synchronized void calling(Thread thread) {
            calling = thread;
            Thread.interrupted();
        }

        synchronized void interrupt() {
            if (calling != null) {
                calling.interrupt();
            }
        }
    }

    private static Thread thread(Runnable run) {
        Thread thread = new Thread(run);
        thread.setDaemon(true);
        return thread;
    }

    private static Map<String, Object> call(Adapter adapter, String op, int worker, String key, JsonObject r)
            throws Exception {
        switch (op) {
            case "acquire":
                return adapter.acquire(worker, key, r.has("wait_ms") ? r.get("wait_ms").getAsLong() : 0);
            case "release":
                adapter.release(worker, key);
                return null;
            case "extend":
                return adapter.extend(worker, key, r.get("ttl_ms").getAsLong());
            case "held":
                return value("held", adapter.held(worker, key));
            default:
                throw new Refused("unsupported", "no such operation");
        }
    }

    /** What belongs to a worker and a key. */
    static final class Held<T> {
        private final Map<String, T> all = new ConcurrentHashMap<>();

        void put(int worker, String key, T lock) {
            all.put(worker + " " + key, lock);
        }

        void remove(int worker, String key) {
            all.remove(worker + " " + key);
        }

        T find(int worker, String key) {
            return all.get(worker + " " + key);
        }

        /** Every worker and key that has something. */
        void each(BiConsumer<Integer, String> tell) {
            for (String name : all.keySet()) {
                int space = name.indexOf(' ');
                tell.accept(Integer.valueOf(name.substring(0, space)), name.substring(space + 1));
            }
        }

        T get(int worker, String key) {
            T lock = find(worker, key);
            if (lock == null) {
                throw new Refused("not-held", "no lock of this worker");
            }
            return lock;
        }
    }

    /** A library's version, from the name of its jar on the class path. */
    static String versionOf(String artifact) {
        for (String path : System.getProperty("java.class.path").split(":")) {
            String name = path.substring(path.lastIndexOf('/') + 1);
            if (name.matches(java.util.regex.Pattern.quote(artifact) + "-\\d.*\\.jar")) {
                return name.substring(artifact.length() + 1, name.length() - 4);
            }
        }
        return "unknown";
    }
}
