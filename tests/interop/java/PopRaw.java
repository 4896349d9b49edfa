import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AckCallback;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/** Single pops, acks and new invisible times, and what comes of them. Arguments: name server, topic, group. */
public class PopRaw {
    private static MQClientAPIImpl api;
    private static String address;
    private static String broker;
    private static String topic;
    private static String group;

    public static void main(String[] args) throws Exception {
        topic = args[1];
        group = args[2];
        ClientConfig config = new ClientConfig();
        config.setNamesrvAddr(args[0]);
        config.setInstanceName("PopRaw");
        Patient.client(config);
        MQClientInstance client = MQClientManager.getInstance().getOrCreateMQClientInstance(config);
        client.start();
        DefaultMQProducer producer = new DefaultMQProducer("PopSendGroup");
        producer.setNamesrvAddr(args[0]);
        Patient.producer(producer);
        producer.start();
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(0);
        broker = queue.getBrokerName();
        api = client.getMQClientAPIImpl();
        client.updateTopicRouteInfoFromNameServer(topic);
        address = client.findBrokerAddressInPublish(broker);
        pop("nothing", 8, 60_000, 0, false, null);
        for (int number = 0; number < 6; number++) {
            producer.send(new Message(topic, "TAG", ("m" + number).getBytes("UTF-8")), queue);
        }
        List<MessageExt> first = pop("first", 3, 4_000, 0, false, null);
        ack("first 0", first.get(0), handle(first.get(0)));
        ack("first 0 twice", first.get(0), handle(first.get(0)));
        String handle = hideLonger("first 1", first.get(1), 9_000);
        ack("first 1 by its old handle", first.get(1), handle(first.get(1)));
        List<MessageExt> second = pop("second", 8, 60_000, 0, false, null);
        batchAck("second", second);
        pop("no more", 8, 60_000, 0, false, null);
        List<MessageExt> back = wait("back");
        ack("back", back.get(0), handle(back.get(0)));
        List<MessageExt> late = wait("late");
        ack("late", late.get(0), handle(late.get(0)));
        ack("first 1, when it was back", first.get(1), handle);
        ack("no such offset", late.get(0), handle(late.get(0)), 1_000_000);
        wrong("no handle");
        List<MessageExt> ordered = null;
        for (int number = 0; number < 3; number++) {
            producer.send(new Message(topic, "TAG", ("o" + number).getBytes("UTF-8")), queue);
        }
        ordered = pop("ordered", 2, 60_000, 0, true, "a");
        pop("ordered by another", 2, 60_000, 0, true, "b");
        List<MessageExt> again = pop("ordered once more", 2, 60_000, 0, true, "a");
        for (MessageExt message : again) {
            ack("ordered", message, handle(message));
        }
        pop("ordered then", 2, 60_000, 0, true, "c");
        producer.shutdown();
        client.shutdown();
        System.exit(0);
    }

    private static List<MessageExt> pop(String what, int most, long invisible, long wait, boolean order, String attempt)
        throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(0);
        header.setMaxMsgNums(most);
        header.setInvisibleTime(invisible);
        header.setInitMode(0);
        header.setPollTime(wait);
        header.setBornTime(System.currentTimeMillis());
        header.setExpType("TAG");
        header.setExp("*");
        header.setOrder(order);
        header.setAttemptId(attempt);
        CompletableFuture<PopResult> done = new CompletableFuture<>();
        api.popMessageAsync(broker, address, header, wait + 5_000, new PopCallback() {
            @Override
            public void onSuccess(PopResult result) {
                done.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                done.completeExceptionally(error);
            }
        });
        PopResult result = done.get(30, TimeUnit.SECONDS);
        List<MessageExt> found = result.getMsgFoundList() == null ? new ArrayList<>() : result.getMsgFoundList();
        StringBuilder told = new StringBuilder();
        for (MessageExt message : found) {
            told.append(' ').append(new String(message.getBody())).append('/').append(message.getReconsumeTimes());
        }
        if (wait == 0 || !found.isEmpty()) {
            tell("POP", what, result.getPopStatus() + told.toString(), String.valueOf(result.getRestNum()));
        }
        return found;
    }

    /** A real broker does not tell a pop that waits of what came back. */
    private static List<MessageExt> wait(String what) throws Exception {
        long end = System.currentTimeMillis() + 40_000;
        while (System.currentTimeMillis() < end) {
            List<MessageExt> found = pop(what, 8, 60_000, 1_000, false, null);
            if (!found.isEmpty()) {
                return found;
            }
        }
        throw new IllegalStateException(what + " did not come");
    }

    private static String handle(MessageExt message) {
        return message.getProperty(MessageConst.PROPERTY_POP_CK);
    }

    private static String realTopic(String handle) {
        return ExtraInfoUtil.getRealTopic(ExtraInfoUtil.split(handle), topic, group);
    }

    private static void ack(String what, MessageExt message, String handle) throws Exception {
        ack(what, message, handle, message.getQueueOffset());
    }

    private static void ack(String what, MessageExt message, String handle, long offset) throws Exception {
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(realTopic(handle));
        header.setQueueId(message.getQueueId());
        header.setOffset(offset);
        header.setExtraInfo(handle);
        CompletableFuture<AckResult> done = new CompletableFuture<>();
        api.ackMessageAsync(address, 5_000, callback(done), header);
        tell("ACK", what, done.get(10, TimeUnit.SECONDS).getStatus().name());
    }

    private static void wrong(String what) throws Exception {
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(topic);
        header.setQueueId(0);
        header.setOffset(0L);
        header.setExtraInfo("nonsense");
        CompletableFuture<AckResult> done = new CompletableFuture<>();
        api.ackMessageAsync(address, 5_000, callback(done), header);
        tell("ACK", what, done.get(10, TimeUnit.SECONDS).getStatus().name());
    }

    private static void batchAck(String what, List<MessageExt> messages) throws Exception {
        List<String> handles = new ArrayList<>();
        for (MessageExt message : messages) {
            handles.add(handle(message));
        }
        CompletableFuture<AckResult> done = new CompletableFuture<>();
        api.batchAckMessageAsync(address, 5_000, callback(done), topic, group, handles);
        tell("BATCH", what, done.get(10, TimeUnit.SECONDS).getStatus().name());
    }

    private static String hideLonger(String what, MessageExt message, long invisible) throws Exception {
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(group);
        header.setTopic(realTopic(handle(message)));
        header.setQueueId(message.getQueueId());
        header.setOffset(message.getQueueOffset());
        header.setExtraInfo(handle(message));
        header.setInvisibleTime(invisible);
        CompletableFuture<AckResult> done = new CompletableFuture<>();
        api.changeInvisibleTimeAsync(broker, address, header, 5_000, callback(done));
        AckResult result = done.get(10, TimeUnit.SECONDS);
        tell("CHANGE", what, result.getStatus().name());
        return result.getExtraInfo();
    }

    private static AckCallback callback(CompletableFuture<AckResult> done) {
        return new AckCallback() {
            @Override
            public void onSuccess(AckResult result) {
                done.complete(result);
            }

            @Override
            public void onException(Throwable error) {
                done.completeExceptionally(error);
            }
        };
    }

    private static void tell(String... words) {
        System.out.println(String.join("\t", words));
    }
}
