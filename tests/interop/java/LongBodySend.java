import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** One message with the usual settings. Arguments: name server, topic, body. */
public class LongBodySend {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("LongBodySendGroup");
        producer.setNamesrvAddr(args[0]);
        Patient.producer(producer);
        producer.start();
        SendResult result = producer.send(new Message(args[1], args[2].getBytes(StandardCharsets.UTF_8)));
        System.out.println("SENT\t" + result.getMsgId());
        producer.shutdown();
    }
}
