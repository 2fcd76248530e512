import io.lettuce.core.ClientOptions;
import io.lettuce.core.SocketOptions;
import java.time.Duration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/** Spring Data's connection to the first node, on Lettuce: rejects commands while there is no connection. */
final class Lettuce {
    private Lettuce() {}

    /** Lettuce sends again what was in flight when it lost the connection: told as one retry. */
    static final int RETRIES = 1;

    static LettuceConnectionFactory connect(Fencepost.Init init) {
        int at = init.nodes.get(0).lastIndexOf(':');
        String host = init.nodes.get(0).substring(0, at);
        int port = Integer.parseInt(init.nodes.get(0).substring(at + 1));
        Duration timeout = Duration.ofMillis(init.node_timeout_ms);
        ClientOptions options = ClientOptions.builder()
                .disconnectedBehavior(ClientOptions.DisconnectedBehavior.REJECT_COMMANDS)
                .socketOptions(SocketOptions.builder().connectTimeout(timeout).build()).build();
        LettuceConnectionFactory factory = new LettuceConnectionFactory(new RedisStandaloneConfiguration(host, port),
                LettuceClientConfiguration.builder().commandTimeout(timeout).clientOptions(options).build());
        factory.afterPropertiesSet();
        factory.start();
        // A node that is down, or slow to answer a first time, may be there later.
        for (int tries = 0; tries < 10; tries++) {
            try {
                factory.getConnection().ping();
                break;
            } catch (RuntimeException error) {
                System.err.println("warm-up: " + error);
            }
        }
        return factory;
    }
}
