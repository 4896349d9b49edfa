import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Delays by the three setters of a 5.x client, and one recall. Arguments: name server, topic, delay in ms. */
public class TimerSend {
    public static void main(String[] args) throws Exception {
        long delayMs = Long.parseLong(args[2]);
        DefaultMQProducer producer = new DefaultMQProducer("TimerSendGroup");
        producer.setNamesrvAddr(args[0]);
        Patient.producer(producer);
        producer.start();
        for (String way : new String[] {"setDelayTimeSec", "setDelayTimeMs", "setDeliverTimeMs", "recalled"}) {
            Message message = new Message(args[1], "TIMER", way, ("by " + way).getBytes("UTF-8"));
            long now = System.currentTimeMillis();
            switch (way) {
                case "setDelayTimeSec": message.setDelayTimeSec(delayMs / 1000); break;
                case "setDelayTimeMs": message.setDelayTimeMs(delayMs); break;
                default: message.setDeliverTimeMs(now + delayMs);
            }
            SendResult result = producer.send(message);
            System.out.println(String.join("\t", "SENT", way, result.getMsgId(),
                String.valueOf(now + delayMs), result.getSendStatus().name()));
            if (way.equals("recalled")) {
                String id = producer.recallMessage(args[1], result.getRecallHandle());
                System.out.println(String.join("\t", "RECALLED", way, id));
            }
        }
        producer.shutdown();
    }
}
