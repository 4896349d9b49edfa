import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageRequestMode;

/** The scenarios that only clients of 5.x have, beside all others. Arguments and output as of Scenarios. */
public class ScenariosOf5 extends Scenarios {
    static final long DELAY_MS = 1500;

    ScenariosOf5(String namesrv, String prefix) {
        super(namesrv, prefix);
        all.put("timers", this::timers);
        all.put("recall", this::recall);
        all.put("pop", this::pop);
    }

    public static void main(String[] args) throws Exception {
        new ScenariosOf5(args[0], args[1]).run(Arrays.asList(args).subList(2, args.length));
    }

    void timers() throws Exception {
        long[] earliest = {Long.MAX_VALUE};
        consumed(COUNT, "*", message -> {
            if (System.currentTimeMillis() < earliest[0]) {
                say("FAILED", message.getKeys() + " came early");
            }
            return take(message);
        }, () -> {
            earliest[0] = System.currentTimeMillis() + DELAY_MS;
            for (int n = 0; n < COUNT; n++) {
                Message message = message("k" + n);
                if (n % 2 == 0) {
                    message.setDelayTimeMs(DELAY_MS);
                } else {
                    message.setDeliverTimeMs(System.currentTimeMillis() + DELAY_MS);
                }
                sent(message.getKeys(), producer.send(message));
            }
        });
    }

    void recall() throws Exception {
        consumed(COUNT / 2, "*", () -> {
            for (int n = 0; n < COUNT; n++) {
                Message message = message((n % 2 == 0 ? "yes" : "no") + n);
                message.setDelayTimeMs(4 * DELAY_MS);
                SendResult result = producer.send(message);
                sent(message.getKeys(), result);
                if (n % 2 != 0) {
                    producer.recallMessage(topic(), result.getRecallHandle());
                }
            }
        });
    }

    /** The broker deals out messages, and this client only says what it has done with each. */
    void pop() throws Exception {
        missing = new CountDownLatch(COUNT);
        MQClientInstance factory = producer.getDefaultMQProducerImpl().getMqClientFactory();
        String broker = producer.fetchPublishMessageQueues(topic()).get(0).getBrokerName();
        factory.getMQClientAPIImpl().setMessageRequestMode(factory.findBrokerAddressInPublish(broker), topic(),
            group(), MessageRequestMode.POP, 0, 10_000);
        DefaultMQPushConsumer consumer = consumer("");
        consumer.setClientRebalance(false);
        consumer.subscribe(topic(), "*");
        listen(consumer, this::take);
        consumer.start();
        try {
            sync();
            await();
        } finally {
            consumer.shutdown();
        }
    }
}
