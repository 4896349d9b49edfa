import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Load of an unmodified client. Arguments: name server, topic, mode (sync, async, batch), messages, rounds,
 * and an access key with its secret for requests that are signed.
 * Prints messages per second and this process's CPU microseconds per message of every round;
 * the first rounds warm up both ends.
 */
public class SendLoad {
    private static final int SYNC_THREADS = 8;
    private static final int ASYNC_IN_FLIGHT = 256;
    private static final int BATCH_SIZE = 32;

    public static void main(String[] args) throws Exception {
        int total = Integer.parseInt(args[3]);
        RPCHook hook = args.length < 7 ? null : new AclClientRPCHook(new SessionCredentials(args[5], args[6]));
        DefaultMQProducer producer = new DefaultMQProducer("SendLoadGroup", hook);
        producer.setNamesrvAddr(args[0]);
        producer.setSendMsgTimeout(30000);
        producer.start();
        byte[] body = new byte[256];
        java.util.Arrays.fill(body, (byte) 'x');
        for (int round = 0; round < Integer.parseInt(args[4]); round++) {
            long cpuStart = processCpuNanos();
            long start = System.nanoTime();
            switch (args[2]) {
                case "sync": sync(producer, args[1], body, total); break;
                case "async": async(producer, args[1], body, total); break;
                default: batch(producer, args[1], body, total);
            }
            double seconds = (System.nanoTime() - start) / 1e9;
            double cpuMicros = (processCpuNanos() - cpuStart) / 1e3 / total;
            System.out.println("RATE\t" + (long) (total / seconds) + "\t" + cpuMicros);
        }
        producer.shutdown();
    }

    private static long processCpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    }

    private static void threads(Runnable work) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < SYNC_THREADS; i++) {
            Thread thread = new Thread(work);
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void sync(DefaultMQProducer producer, String topic, byte[] body, int total) throws Exception {
        AtomicInteger left = new AtomicInteger(total);
        threads(() -> {
            try {
                while (left.decrementAndGet() >= 0) {
                    producer.send(new Message(topic, body));
                }
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        });
    }

    private static void async(DefaultMQProducer producer, String topic, byte[] body, int total) throws Exception {
        Semaphore room = new Semaphore(ASYNC_IN_FLIGHT);
        CountDownLatch left = new CountDownLatch(total);
        for (int i = 0; i < total; i++) {
            room.acquire();
            producer.send(new Message(topic, body), new SendCallback() {
                @Override public void onSuccess(SendResult result) {
                    room.release();
                    left.countDown();
                }

                @Override public void onException(Throwable e) {
                    e.printStackTrace();
                    System.exit(1);
                }
            });
        }
        left.await();
    }

    private static void batch(DefaultMQProducer producer, String topic, byte[] body, int total) throws Exception {
        AtomicInteger left = new AtomicInteger(total / BATCH_SIZE);
        threads(() -> {
            try {
                while (left.decrementAndGet() >= 0) {
                    List<Message> messages = new ArrayList<>(BATCH_SIZE);
                    for (int i = 0; i < BATCH_SIZE; i++) {
                        messages.add(new Message(topic, body));
                    }
                    producer.send(messages);
                }
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        });
    }
}
