import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** A push consumer that prints what arrives. Arguments: name server, topic, messages to wait for, seconds, group. */
public class TimerReceive {
    public static void main(String[] args) throws Exception {
        CountDownLatch missing = new CountDownLatch(Integer.parseInt(args[2]));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[4]);
        consumer.setNamesrvAddr(args[0]);
        Patient.client(consumer);
        consumer.setAwaitTerminationMillisWhenShutdown(Patient.WAIT_MS); // what its listener has taken is noted
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                System.out.println(String.join("\t", "RECEIVED", message.getKeys(), message.getMsgId(),
                    String.valueOf(System.currentTimeMillis()), new String(message.getBody()),
                    String.valueOf(message.getReconsumeTimes())));
                missing.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.out.println("STARTED");
        boolean all = missing.await(Long.parseLong(args[3]), TimeUnit.SECONDS);
        consumer.shutdown();
        System.exit(all ? 0 : 1);
    }
}
