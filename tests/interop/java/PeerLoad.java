import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** RocketMQ's client in Java as a peer of the bench `peers`, which says what a peer does and prints. */
public class PeerLoad {
    private static final int WINDOW = 1000;
    private static final int BATCH = 32;
    private static final int WAIT_S = 120;
    private static final byte[] BODY = new byte[256];

    private final String address;
    private final String prefix;
    private final DefaultMQProducer producer;
    private final SynchronousQueue<Long> echoes = new SynchronousQueue<>();

    private interface Part {
        double run(int count) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        new PeerLoad(args[0], args[1]).run(Arrays.stream(args).skip(2).mapToInt(Integer::parseInt).toArray());
    }

    private PeerLoad(String address, String prefix) throws Exception {
        this.address = address;
        this.prefix = prefix;
        Arrays.fill(BODY, (byte) 'x');
        producer = new DefaultMQProducer(prefix + "_producer");
        producer.setNamesrvAddr(address);
        producer.setSendMsgTimeout(30000);
        producer.start();
    }

    private void run(int[] counts) throws Exception {
        producer.send(echo());
        System.out.println("SENT");
        DefaultMQPushConsumer consumer = consumer(prefix + "_echo", prefix + "_listener", (messages, context) -> {
            for (int i = 0; i < messages.size(); i++) {
                try {
                    echoes.put(System.nanoTime());
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        take();
        System.out.println("IDLE");
        System.in.read();
        report("blocking", this::blocking, counts[0]);
        report("window", this::window, counts[1]);
        report("batch", this::batch, counts[2]);
        report("consume", this::consume, counts[3]);
        report("latency", this::latency, counts[4]);
        consumer.shutdown();
        producer.shutdown();
    }

    private static void report(String name, Part part, int count) throws Exception {
        part.run(count);
        System.out.println(name + "\t" + part.run(count));
    }

    private Message echo() {
        return new Message(prefix + "_echo", BODY);
    }

    private Message message() {
        return new Message(prefix + "_load", BODY);
    }

    private static double rate(int count, long since) {
        return count * 1e9 / (System.nanoTime() - since);
    }

    private double blocking(int count) throws Exception {
        long since = System.nanoTime();
        for (int i = 0; i < count; i++) {
            producer.send(message());
        }
        return rate(count, since);
    }

    private double window(int count) throws Exception {
        Semaphore room = new Semaphore(WINDOW);
        long since = System.nanoTime();
        for (int i = 0; i < count; i++) {
            room.acquire();
            producer.send(message(), new SendCallback() {
                @Override public void onSuccess(SendResult result) {
                    room.release();
                }

                @Override public void onException(Throwable e) {
                    e.printStackTrace();
                    System.exit(1);
                }
            });
        }
        room.acquire(WINDOW);
        return rate(count, since);
    }

    private double batch(int count) throws Exception {
        long since = System.nanoTime();
        for (int i = 0; i < count; i += BATCH) {
            List<Message> messages = new ArrayList<>(BATCH);
            for (int j = 0; j < BATCH; j++) {
                messages.add(message());
            }
            producer.send(messages);
        }
        return rate(count, since);
    }

    private double consume(int count) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        AtomicInteger left = new AtomicInteger(count);
        AtomicLong since = new AtomicLong();
        AtomicLong end = new AtomicLong();
        String group = prefix + "_reader_" + System.nanoTime();
        DefaultMQPushConsumer consumer = consumer(prefix + "_load", group, (messages, context) -> {
            since.compareAndSet(0, System.nanoTime());
            if (left.getAndAdd(-messages.size()) > 0 && left.get() <= 0) {
                end.compareAndSet(0, System.nanoTime());
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        if (!done.await(WAIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException(left.get() + " messages did not come");
        }
        consumer.shutdown();
        return count * 1e9 / (end.get() - since.get());
    }

    private double latency(int count) throws Exception {
        long[] micros = new long[count];
        for (int i = 0; i < count; i++) {
            long since = System.nanoTime();
            producer.send(echo());
            micros[i] = (take() - since) / 1000;
        }
        Arrays.sort(micros);
        return micros[count / 2];
    }

    private long take() throws Exception {
        Long at = echoes.poll(WAIT_S, TimeUnit.SECONDS);
        if (at == null) {
            throw new IllegalStateException("a message did not come");
        }
        return at;
    }

    private DefaultMQPushConsumer consumer(String topic, String group, MessageListenerConcurrently listener)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener(listener);
        consumer.start();
        return consumer;
    }
}
