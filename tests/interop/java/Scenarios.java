import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What a team does with RocketMQ, one scenario after the other, with the client of one release.
 *
 * Arguments: name server, prefix of topics and groups, names of scenarios. Each line of output is a kind, a scenario
 * and a key: SENT, RECEIVED (with the queue), FAILED with the reason, and DONE at the end of a scenario. What should
 * have come is for the reader to say; a scenario only waits until so many have.
 */
public class Scenarios {
    static final int COUNT = 20;
    static final long WAIT_S = 90; // a pull whose connection was closed is begun again after 30 s
    /** What would come twice comes within this time. */
    static final long TWICE_MS = 300;

    interface Scenario {
        void run() throws Exception;
    }

    interface Taker {
        boolean takes(MessageExt message);
    }

    final Map<String, Scenario> all = new LinkedHashMap<>();
    final String namesrv;
    final String prefix;
    DefaultMQProducer producer;
    String name;
    CountDownLatch missing;

    Scenarios(String namesrv, String prefix) {
        this.namesrv = namesrv;
        this.prefix = prefix;
        all.put("sync", () -> consumed(COUNT, "*", this::sync));
        all.put("async", () -> consumed(COUNT, "*", this::async));
        all.put("oneway", () -> consumed(COUNT, "*", this::oneway));
        all.put("batch", () -> consumed(COUNT, "*", this::batch));
        all.put("orderly", this::orderly);
        all.put("tags", () -> consumed(COUNT / 2, "A || C", this::tagged));
        all.put("sql", this::sql);
        all.put("broadcast", this::broadcast);
        all.put("pull", this::pull);
        all.put("lite_pull", this::litePull);
        all.put("query", this::query);
        all.put("request_reply", this::requestReply);
        all.put("retry", this::retry);
        all.put("dead_letters", this::deadLetters);
        all.put("transaction", this::transaction);
        all.put("levels", this::levels);
    }

    public static void main(String[] args) throws Exception {
        new Scenarios(args[0], args[1]).run(Arrays.asList(args).subList(2, args.length));
    }

    void run(List<String> names) throws Exception {
        producer = new DefaultMQProducer(prefix + "_producer");
        producer.setNamesrvAddr(namesrv);
        producer.setInstanceName("producer");
        Patient.producer(producer);
        producer.start();
        for (String each : names) {
            name = each;
            try {
                all.get(each).run();
            } catch (Exception | LinkageError error) {
                say("FAILED", String.valueOf(error).replaceAll("\\s+", " "));
            }
            say("DONE", "");
        }
        producer.shutdown();
        System.exit(0);
    }

    void say(String... words) {
        List<String> line = new ArrayList<>(Arrays.asList(words));
        line.add(1, name);
        System.out.println(String.join("\t", line));
    }

    String topic() {
        return prefix + "_" + name;
    }

    String group() {
        return prefix + "_" + name + "_group";
    }

    Message message(String key) {
        return new Message(topic(), "A", key, key.getBytes());
    }

    void sent(String key, SendResult result) {
        say(result.getSendStatus() == SendStatus.SEND_OK ? "SENT" : "FAILED", key);
    }

    void received(MessageExt message) {
        say("RECEIVED", message.getKeys(), String.valueOf(message.getQueueId()));
        missing.countDown();
    }

    // --- consuming ---------------------------------------------------------------------------

    DefaultMQPushConsumer consumer(String instance) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group());
        consumer.setNamesrvAddr(namesrv);
        Patient.client(consumer);
        consumer.setInstanceName(name + instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    void listen(DefaultMQPushConsumer consumer, Taker taker) {
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            boolean all = true;
            for (MessageExt message : messages) {
                all &= taker.takes(message);
            }
            return all ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
    }

    boolean take(MessageExt message) {
        received(message);
        return true;
    }

    void await() throws Exception {
        if (!missing.await(WAIT_S, TimeUnit.SECONDS)) {
            say("FAILED", missing.getCount() + " did not come in " + WAIT_S + " s");
        }
        Thread.sleep(TWICE_MS);
    }

    void consumed(int count, String tags, Scenario sending) throws Exception {
        consumed(count, tags, this::take, sending);
    }

    void consumed(int count, String tags, Taker taker, Scenario sending) throws Exception {
        missing = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = consumer("");
        consumer.subscribe(topic(), tags);
        listen(consumer, taker);
        consumer.start();
        try {
            sending.run();
            await();
        } finally {
            consumer.shutdown();
        }
    }

    // --- sending -----------------------------------------------------------------------------

    void sync() throws Exception {
        for (int n = 0; n < COUNT; n++) {
            sent("k" + n, producer.send(message("k" + n)));
        }
    }

    void async() throws Exception {
        for (int n = 0; n < COUNT; n++) {
            String key = "k" + n;
            producer.send(message(key), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    sent(key, result);
                }

                @Override
                public void onException(Throwable error) {
                    say("FAILED", error.toString());
                }
            });
        }
    }

    void oneway() throws Exception {
        for (int n = 0; n < COUNT; n++) {
            producer.sendOneway(message("k" + n));
            say("SENT", "k" + n);
        }
    }

    void batch() throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int n = 0; n < COUNT; n++) {
            messages.add(message("k" + n));
        }
        SendResult result = producer.send(messages);
        for (Message message : messages) {
            sent(message.getKeys(), result);
        }
    }

    void tagged() throws Exception {
        for (int n = 0; n < COUNT; n++) {
            Message message = message((n % 2 == 0 ? "yes" : "no") + n);
            message.setTags(n % 4 == 0 ? "A" : n % 2 == 0 ? "C" : "B");
            sent(message.getKeys(), producer.send(message));
        }
    }

    // --- scenarios ---------------------------------------------------------------------------

    void orderly() throws Exception {
        missing = new CountDownLatch(COUNT);
        DefaultMQPushConsumer consumer = consumer("");
        consumer.subscribe(topic(), "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(this::received);
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        try {
            for (int n = 0; n < COUNT; n++) {
                sent("k" + n, producer.send(message("k" + n), (queues, message, arg) ->
                    queues.get((Integer) arg % queues.size()), n));
            }
            await();
        } finally {
            consumer.shutdown();
        }
    }

    void sql() throws Exception {
        missing = new CountDownLatch(COUNT / 2);
        DefaultMQPushConsumer consumer = consumer("");
        consumer.subscribe(topic(),
            MessageSelector.bySql("(amount BETWEEN 0 AND 9 AND region IN ('north', 'south')) OR big IS NOT NULL"));
        listen(consumer, this::take);
        consumer.start();
        try {
            for (int n = 0; n < COUNT; n++) {
                Message message = message((n % 2 == 0 ? "yes" : "no") + n);
                message.putUserProperty("region", n % 2 == 0 ? "north" : "east");
                message.putUserProperty("amount", String.valueOf(n));
                if (n % 2 == 0 && n > 9) {
                    message.putUserProperty("big", "true");
                }
                sent(message.getKeys(), producer.send(message));
            }
            await();
        } finally {
            consumer.shutdown();
        }
    }

    void broadcast() throws Exception {
        missing = new CountDownLatch(2 * COUNT);
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        try {
            for (String instance : Arrays.asList("1", "2")) {
                DefaultMQPushConsumer consumer = consumer(instance);
                broadcasts(consumer);
                consumer.subscribe(topic(), "*");
                listen(consumer, message -> {
                    say("RECEIVED", message.getKeys() + "@" + instance, String.valueOf(message.getQueueId()));
                    missing.countDown();
                    return true;
                });
                consumer.start();
                consumers.add(consumer);
            }
            sync();
            await();
        } finally {
            consumers.forEach(DefaultMQPushConsumer::shutdown);
        }
    }

    /** The enumeration has another package in 5.x. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static void broadcasts(DefaultMQPushConsumer consumer) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                Class models = method.getParameterTypes()[0];
                method.invoke(consumer, Enum.valueOf(models, "BROADCASTING"));
            }
        }
    }

    @SuppressWarnings("deprecation")
    void pull() throws Exception {
        missing = new CountDownLatch(COUNT);
        sync();
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group());
        consumer.setNamesrvAddr(namesrv);
        Patient.client(consumer);
        consumer.setInstanceName(name);
        consumer.start();
        try {
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic())) {
                for (long at = consumer.minOffset(queue); at < consumer.maxOffset(queue);) {
                    PullResult result = consumer.pull(queue, "*", at, 3);
                    if (result.getMsgFoundList() != null) {
                        result.getMsgFoundList().forEach(this::received);
                    }
                    at = result.getNextBeginOffset();
                }
            }
            await();
        } finally {
            consumer.shutdown();
        }
    }

    void litePull() throws Exception {
        missing = new CountDownLatch(COUNT);
        sync();
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group());
        consumer.setNamesrvAddr(namesrv);
        Patient.client(consumer);
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic(), "*");
        consumer.start();
        try {
            long end = System.currentTimeMillis() + WAIT_S * 1000;
            while (missing.getCount() > 0 && System.currentTimeMillis() < end) {
                consumer.poll(200).forEach(this::received);
            }
            consumer.poll(TWICE_MS).forEach(this::received);
            await();
        } finally {
            consumer.shutdown();
        }
    }

    void query() throws Exception {
        missing = new CountDownLatch(1);
        Map<String, SendResult> results = new LinkedHashMap<>();
        for (int n = 0; n < COUNT; n++) {
            results.put("k" + n, producer.send(message("k" + n)));
            sent("k" + n, results.get("k" + n));
        }
        for (Map.Entry<String, SendResult> each : results.entrySet()) {
            String key = each.getKey();
            QueryResult byKey = found(key);
            MessageExt byOffset = producer.viewMessage(topic(), each.getValue().getOffsetMsgId());
            MessageExt byUniqueKey = producer.viewMessage(topic(), each.getValue().getMsgId());
            for (MessageExt message : byKey.getMessageList()) {
                if (key.equals(byOffset.getKeys()) && key.equals(byUniqueKey.getKeys())) {
                    received(message);
                }
            }
        }
    }

    /** A real broker makes its index a moment later. */
    QueryResult found(String key) throws Exception {
        long end = System.currentTimeMillis() + 10_000;
        while (true) {
            try {
                return producer.queryMessage(topic(), key, 32, 0, Long.MAX_VALUE);
            } catch (Exception error) {
                if (System.currentTimeMillis() > end) {
                    throw error;
                }
                Thread.sleep(100);
            }
        }
    }

    void requestReply() throws Exception {
        missing = new CountDownLatch(COUNT);
        DefaultMQProducer answers = new DefaultMQProducer(prefix + "_answers");
        answers.setNamesrvAddr(namesrv);
        answers.setInstanceName("answers");
        Patient.producer(answers);
        answers.start();
        DefaultMQPushConsumer consumer = consumer("");
        consumer.subscribe(topic(), "*");
        listen(consumer, message -> {
            try {
                String reply = "re:" + new String(message.getBody());
                answers.send(MessageUtil.createReplyMessage(message, reply.getBytes()));
            } catch (Exception error) {
                say("FAILED", error.toString());
            }
            return true;
        });
        consumer.start();
        try {
            for (int n = 0; n < COUNT; n++) {
                String key = "k" + n;
                say("SENT", key);
                Message reply = producer.request(message(key), 20_000);
                if (("re:" + key).equals(new String(reply.getBody()))) {
                    say("RECEIVED", key, "0");
                }
                missing.countDown();
            }
            await();
        } finally {
            consumer.shutdown();
            answers.shutdown();
        }
    }

    void retry() throws Exception {
        consumed(COUNT, "*", message -> {
            if (message.getReconsumeTimes() == 0) {
                return false;
            }
            return take(message);
        }, this::sync);
    }

    void deadLetters() throws Exception {
        missing = new CountDownLatch(COUNT);
        DefaultMQPushConsumer consumer = consumer("");
        consumer.setMaxReconsumeTimes(0);
        consumer.subscribe(topic(), "*");
        Set<String> refused = ConcurrentHashMap.newKeySet();
        listen(consumer, message -> {
            refused.add(message.getKeys());
            return false;
        });
        consumer.start();
        try {
            sync();
            MessageQueue dead = new MessageQueue("%DLQ%" + group(),
                producer.fetchPublishMessageQueues(topic()).get(0).getBrokerName(), 0);
            long end = System.currentTimeMillis() + WAIT_S * 1000;
            while (deadLettersIn(dead) < COUNT && System.currentTimeMillis() < end) {
                Thread.sleep(100);
            }
            Thread.sleep(TWICE_MS);
            if (deadLettersIn(dead) != COUNT) {
                say("FAILED", deadLettersIn(dead) + " dead letters");
            }
            refused.forEach(key -> say("RECEIVED", key, "0"));
        } finally {
            consumer.shutdown();
        }
    }

    long deadLettersIn(MessageQueue dead) {
        try {
            return producer.maxOffset(dead);
        } catch (Exception error) {
            return 0; // the topic is made with the first of them
        }
    }

    void transaction() throws Exception {
        TransactionMQProducer transactions = new TransactionMQProducer(prefix + "_transactions");
        transactions.setNamesrvAddr(namesrv);
        transactions.setInstanceName("transactions");
        transactions.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                return message.getKeys().startsWith("yes") ? LocalTransactionState.COMMIT_MESSAGE
                    : LocalTransactionState.ROLLBACK_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        Patient.producer(transactions);
        transactions.start();
        try {
            consumed(COUNT / 2, "*", () -> {
                for (int n = 0; n < COUNT; n++) {
                    Message message = message((n % 2 == 0 ? "yes" : "no") + n);
                    sent(message.getKeys(), transactions.sendMessageInTransaction(message, null));
                }
            });
        } finally {
            transactions.shutdown();
        }
    }

    void levels() throws Exception {
        long[] earliest = {Long.MAX_VALUE};
        consumed(COUNT, "*", message -> {
            if (System.currentTimeMillis() < earliest[0]) {
                say("FAILED", message.getKeys() + " came early");
            }
            return take(message);
        }, () -> {
            earliest[0] = System.currentTimeMillis() + 1000;
            for (int n = 0; n < COUNT; n++) {
                Message message = message("k" + n);
                message.setDelayTimeLevel(1);
                sent(message.getKeys(), producer.send(message));
            }
        });
    }
}
