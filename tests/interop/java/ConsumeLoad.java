import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/**
 * Consumption by an unmodified client. Arguments: name server, topic, mode, messages, rounds.
 * consume: sends the messages, then a new group consumes them all in every round; prints messages per second,
 * from the first one in a listener to the last, and this process's CPU microseconds per message.
 * latency: one message at a time; prints the median of the microseconds from the begin of its send until it is
 * in a listener.
 */
public class ConsumeLoad {
    private static final int BATCH_SIZE = 32;
    private static final int WARM = 500;

    public static void main(String[] args) throws Exception {
        int total = Integer.parseInt(args[3]);
        DefaultMQProducer producer = new DefaultMQProducer("ConsumeLoadGroup");
        producer.setNamesrvAddr(args[0]);
        producer.setSendMsgTimeout(30000);
        producer.start();
        byte[] body = new byte[256];
        Arrays.fill(body, (byte) 'x');
        if (args[2].equals("latency")) {
            latency(producer, args[0], args[1], body, total);
        } else {
            for (int i = 0; i < total / BATCH_SIZE; i++) {
                List<Message> messages = new ArrayList<>(BATCH_SIZE);
                for (int j = 0; j < BATCH_SIZE; j++) {
                    messages.add(new Message(args[1], body));
                }
                producer.send(messages);
            }
            for (int round = 0; round < Integer.parseInt(args[4]); round++) {
                consume(args[0], args[1], args[1] + "_" + round, total);
            }
        }
        producer.shutdown();
    }

    private static DefaultMQPushConsumer consumer(
        String namesrv, String topic, String group, MessageListenerConcurrently listener) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }

    private static void consume(String namesrv, String topic, String group, int total) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        AtomicInteger left = new AtomicInteger(total);
        AtomicLong start = new AtomicLong();
        AtomicLong cpuStart = new AtomicLong();
        AtomicLong end = new AtomicLong();
        DefaultMQPushConsumer consumer = consumer(namesrv, topic, group, (messages, context) -> {
            if (start.get() == 0 && start.compareAndSet(0, System.nanoTime())) {
                cpuStart.set(processCpuNanos());
            }
            if (left.addAndGet(-messages.size()) == 0) {
                end.set(System.nanoTime());
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        if (!done.await(120, TimeUnit.SECONDS)) {
            throw new IllegalStateException(left.get() + " messages did not come");
        }
        double cpuMicros = (processCpuNanos() - cpuStart.get()) / 1e3 / total;
        System.out.println("RATE\t" + (long) (total * 1e9 / (end.get() - start.get())) + "\t" + cpuMicros);
        consumer.shutdown();
    }

    private static void latency(DefaultMQProducer producer, String namesrv, String topic, byte[] body, int total)
        throws Exception {
        SynchronousQueue<Long> came = new SynchronousQueue<>();
        producer.send(new Message(topic, body));
        DefaultMQPushConsumer consumer = consumer(namesrv, topic, topic + "_latency", (messages, context) -> {
            try {
                came.put(System.nanoTime());
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        if (came.poll(60, TimeUnit.SECONDS) == null) {
            throw new IllegalStateException("the first message did not come");
        }
        long[] micros = new long[total];
        for (int i = -WARM; i < total; i++) {
            long start = System.nanoTime();
            producer.send(new Message(topic, body));
            Long end = came.poll(60, TimeUnit.SECONDS);
            if (end == null) {
                throw new IllegalStateException("message " + i + " did not come");
            }
            if (i >= 0) {
                micros[i] = (end - start) / 1000;
            }
        }
        Arrays.sort(micros);
        System.out.println("P50\t" + micros[total / 2] + "\t" + micros[total * 99 / 100]);
        consumer.shutdown();
    }

    private static long processCpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    }
}
