import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Delays as a 4.9.4 client can ask for them: user properties. Arguments: name server, topic, delay in ms. */
public class LegacyTimerSend {
    public static void main(String[] args) throws Exception {
        long delayMs = Long.parseLong(args[2]);
        DefaultMQProducer producer = new DefaultMQProducer("LegacyTimerSendGroup");
        producer.setNamesrvAddr(args[0]);
        Patient.producer(producer);
        producer.start();
        for (String way : new String[] {"TIMER_DELAY_SEC", "TIMER_DELAY_MS", "__STARTDELIVERTIME"}) {
            Message message = new Message(args[1], "LEGACY", way, ("by " + way).getBytes("UTF-8"));
            long now = System.currentTimeMillis();
            String value = way.equals("TIMER_DELAY_SEC") ? String.valueOf(delayMs / 1000)
                : way.equals("TIMER_DELAY_MS") ? String.valueOf(delayMs)
                : String.valueOf(now + delayMs);
            message.putUserProperty(way, value);
            SendResult result = producer.send(message);
            System.out.println(String.join("\t", "SENT", way, result.getMsgId(),
                String.valueOf(now + delayMs), result.getSendStatus().name()));
        }
        producer.shutdown();
    }
}
