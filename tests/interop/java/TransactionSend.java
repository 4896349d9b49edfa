import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A commit, a rollback, and one that the broker must ask about. Arguments: name server, topic, seconds to wait. */
public class TransactionSend {
    public static void main(String[] args) throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        TransactionMQProducer producer = new TransactionMQProducer("TransactionSendGroup");
        producer.setNamesrvAddr(args[0]);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                return (LocalTransactionState) arg;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                System.out.println(String.join("\t", "CHECKED", message.getKeys(), message.getTransactionId(),
                    message.getTopic()));
                asked.countDown();
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        Patient.producer(producer);
        producer.start();
        for (LocalTransactionState state : new LocalTransactionState[] {LocalTransactionState.COMMIT_MESSAGE,
            LocalTransactionState.ROLLBACK_MESSAGE, LocalTransactionState.UNKNOW}) {
            Message message = new Message(args[1], "TX", state.name(), ("by " + state.name()).getBytes("UTF-8"));
            TransactionSendResult result = producer.sendMessageInTransaction(message, state);
            System.out.println(String.join("\t", "SENT", state.name(), result.getMsgId(),
                result.getSendStatus().name()));
        }
        boolean all = asked.await(Long.parseLong(args[2]), TimeUnit.SECONDS);
        Thread.sleep(500); // the answer to the question leaves one-way
        producer.shutdown();
        System.exit(all ? 0 : 1);
    }
}
