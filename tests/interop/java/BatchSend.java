import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Batches and single messages in turns. Arguments: name server, topic, how many of each send, such as 3 1 2. */
public class BatchSend {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("BatchSendGroup");
        producer.setNamesrvAddr(args[0]);
        Patient.producer(producer);
        producer.start();
        MessageQueue queue = producer.fetchPublishMessageQueues(args[1]).get(0);
        int number = 0;
        for (int arg = 2; arg < args.length; arg++) {
            List<Message> batch = new ArrayList<>();
            for (int left = Integer.parseInt(args[arg]); left > 0; left--) {
                batch.add(new Message(args[1], "TAG", "key" + number, ("body " + number).getBytes("UTF-8")));
                number++;
            }
            SendResult result = batch.size() == 1 ? producer.send(batch.get(0), queue) : producer.send(batch, queue);
            System.out.println(String.join("\t", "SENT", String.valueOf(batch.size()), result.getMsgId(),
                String.valueOf(result.getQueueOffset()), result.getSendStatus().name()));
        }
        producer.shutdown();
    }
}
