import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** Longer waits for a client's requests: the first ones of a JVM that starts on a busy machine need more than 3 s. */
final class Patient {
    static final int WAIT_MS = 60_000;

    private Patient() {
    }

    /** To be called before the start of a consumer, or of another client that asks for routes. */
    static void client(ClientConfig config) {
        config.setMqClientApiTimeout(WAIT_MS);
    }

    /** To be called before the start of a producer. */
    static void producer(DefaultMQProducer producer) {
        client(producer);
        producer.setSendMsgTimeout(WAIT_MS);
    }
}
