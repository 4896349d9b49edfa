import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Asks or answers. Arguments: name server, topic, "ask" or "answer", how many requests.
 * An asker sends the first half blocking, the others with a callback, and one that nobody answers.
 */
public class RequestReply {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("RequestReply_" + args[2]);
        producer.setNamesrvAddr(args[0]);
        Patient.producer(producer);
        producer.start();
        int count = Integer.parseInt(args[3]);
        boolean all = "ask".equals(args[2]) ? ask(producer, args[1], count) : answer(producer, args, count);
        producer.shutdown();
        System.exit(all ? 0 : 1);
    }

    private static boolean ask(DefaultMQProducer producer, String topic, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        for (int number = 0; number < count; number++) {
            Message message = new Message(topic, "ask", ("question " + number).getBytes("UTF-8"));
            if (number < count / 2) {
                told(message, producer.request(message, 30000), left);
                continue;
            }
            producer.request(message, new RequestCallback() {
                @Override
                public void onSuccess(Message reply) {
                    told(message, reply, left);
                }

                @Override
                public void onException(Throwable error) {
                    System.out.println("FAILED\t" + error);
                }
            }, 30000);
        }
        boolean all = left.await(60, TimeUnit.SECONDS);
        try {
            producer.request(new Message(topic, "silence", "nobody answers".getBytes("UTF-8")), 1000);
        } catch (RequestTimeoutException error) {
            System.out.println("TIMEOUT\t" + error.getResponseCode());
        }
        return all;
    }

    private static void told(Message message, Message reply, CountDownLatch left) {
        System.out.println(String.join("\t", "REPLY", new String(message.getBody()), new String(reply.getBody()),
            String.valueOf(message.getProperty("CORRELATION_ID").equals(reply.getProperty("CORRELATION_ID")))));
        left.countDown();
    }

    private static boolean answer(DefaultMQProducer producer, String[] args, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("RequestReplyAnswers");
        consumer.setNamesrvAddr(args[0]);
        Patient.client(consumer);
        consumer.subscribe(args[1], "ask");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    String body = "reply to " + new String(message.getBody());
                    Message reply = MessageUtil.createReplyMessage(message, body.getBytes("UTF-8"));
                    System.out.println("SENT\t" + producer.send(reply).getSendStatus());
                    left.countDown();
                } catch (Exception error) {
                    System.out.println("FAILED\t" + error);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.out.println("STARTED");
        boolean all = left.await(60, TimeUnit.SECONDS);
        consumer.shutdown();
        return all;
    }
}
