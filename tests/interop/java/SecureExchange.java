import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Sends and consumes as an account, by TLS when the properties of the JVM say so. Then sends to a topic that the
 * account may not use. Arguments: name server, topic, group, number, forbidden topic, access key, secret key.
 */
public class SecureExchange {
    public static void main(String[] args) throws Exception {
        RPCHook hook = args[5].isEmpty() ? null : new AclClientRPCHook(new SessionCredentials(args[5], args[6]));
        int number = Integer.parseInt(args[3]);
        CountDownLatch left = new CountDownLatch(number);
        DefaultMQProducer producer = new DefaultMQProducer("SecureProducer", hook);
        producer.setNamesrvAddr(args[0]);
        producer.setRetryTimesWhenSendFailed(0);
        Patient.producer(producer);
        producer.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2], hook);
        consumer.setNamesrvAddr(args[0]);
        Patient.client(consumer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                System.out.println(String.join("\t", "RECEIVED", new String(message.getBody()), message.getMsgId()));
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            for (int each = 0; each < number; each++) {
                SendResult result = producer.send(new Message(args[1], ("message " + each).getBytes()));
                System.out.println(String.join("\t", "SENT", "message " + each, result.getMsgId()));
            }
            left.await(60, TimeUnit.SECONDS);
        } catch (Exception error) {
            tell("REFUSED", error);
        }
        try {
            producer.send(new Message(args[4], "not allowed".getBytes()));
            System.out.println("PASSED\t" + args[4]);
        } catch (Exception error) {
            tell("DENIED", error);
        }
        consumer.shutdown();
        producer.shutdown();
    }

    /** A code that is worth another try, as 1 is, comes as the cause of the last one's failure. */
    private static void tell(String what, Exception error) throws Exception {
        Throwable last = error instanceof MQClientException ? error.getCause() : error;
        if (!(last instanceof MQBrokerException)) {
            throw error;
        }
        MQBrokerException refused = (MQBrokerException) last;
        System.out.println(String.join("\t", what, "" + refused.getResponseCode(), refused.getErrorMessage()));
    }
}
