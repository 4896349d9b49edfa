import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A consumer that takes messages by a SQL92 condition and prints their keys, up to one that is called "last".
 * Arguments: name server, topic, group, "push" or "lite", condition. A condition that is refused is printed as
 * REFUSED with code and text.
 */
public class SqlReceive {
    private static final long PATIENCE_SECONDS = 60;

    public static void main(String[] args) throws Exception {
        MessageSelector wanted = MessageSelector.bySql(args[4]);
        boolean all;
        try {
            all = args[3].equals("push") ? push(args[0], args[1], args[2], wanted)
                : lite(args[0], args[1], args[2], wanted);
        } catch (MQClientException refused) {
            System.out.println("REFUSED\t" + refused.getResponseCode() + "\t"
                + refused.getErrorMessage().replace("\n", " "));
            all = true;
        }
        System.exit(all ? 0 : 1);
    }

    private static boolean push(String namesrv, String topic, String group, MessageSelector wanted) throws Exception {
        LinkedBlockingQueue<MessageExt> came = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        Patient.client(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        // One thread: of two, the one with "last" may be the first to hand it over.
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.subscribe(topic, wanted);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            came.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            for (MessageExt message = came.poll(PATIENCE_SECONDS, TimeUnit.SECONDS); message != null;
                message = came.poll(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
                if (isLast(message)) {
                    return true;
                }
            }
            return false;
        } finally {
            consumer.shutdown();
        }
    }

    private static boolean lite(String namesrv, String topic, String group, MessageSelector wanted) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        Patient.client(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, wanted);
        consumer.start();
        try {
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
            while (System.nanoTime() < end) {
                List<MessageExt> messages = new ArrayList<>(consumer.poll());
                messages.sort((one, other) -> Long.compare(one.getQueueOffset(), other.getQueueOffset()));
                for (MessageExt message : messages) {
                    if (isLast(message)) {
                        return true;
                    }
                }
            }
            return false;
        } finally {
            consumer.shutdown();
        }
    }

    /** Print a message, and say whether it is the one that ends the program. */
    private static boolean isLast(MessageExt message) {
        System.out.println("RECEIVED\t" + message.getKeys());
        return message.getKeys().equals("last");
    }
}
