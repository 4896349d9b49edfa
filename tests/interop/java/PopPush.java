import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * A push consumer in POP mode, which fails once with the messages that say so. Arguments: name server, topic,
 * group, messages to send, seconds.
 */
public class PopPush {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int messages = Integer.parseInt(args[3]);
        DefaultMQAdminExt admin = new DefaultMQAdminExt(Patient.WAIT_MS);
        admin.setNamesrvAddr(args[0]);
        admin.start();
        for (BrokerData broker : admin.examineTopicRouteInfo(topic).getBrokerDatas()) {
            admin.setMessageRequestMode(broker.selectBrokerAddr(), topic, args[2], MessageRequestMode.POP, 0, 3000);
        }
        admin.shutdown();

        CountDownLatch missing = new CountDownLatch(messages);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        Patient.client(consumer);
        consumer.setClientRebalance(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (found, context) -> {
            for (MessageExt message : found) {
                System.out.println(String.join("\t", "RECEIVED", new String(message.getBody()), message.getTopic(),
                    String.valueOf(message.getReconsumeTimes())));
                if (message.getKeys().equals("fails") && message.getReconsumeTimes() == 0) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                missing.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();

        DefaultMQProducer producer = new DefaultMQProducer("PopSendGroup");
        producer.setNamesrvAddr(args[0]);
        Patient.producer(producer);
        producer.start();
        for (int number = 0; number < messages; number++) {
            String key = number % 10 == 9 ? "fails" : "works";
            producer.send(new Message(topic, "TAG", key, ("m" + number).getBytes("UTF-8")));
        }
        producer.shutdown();
        boolean all = missing.await(Long.parseLong(args[4]), TimeUnit.SECONDS);
        Thread.sleep(500); // acks leave in background
        consumer.shutdown();
        System.exit(all ? 0 : 1);
    }
}
