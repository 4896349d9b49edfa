import com.aliyun.openservices.ons.api.Action;
import com.aliyun.openservices.ons.api.Consumer;
import com.aliyun.openservices.ons.api.Message;
import com.aliyun.openservices.ons.api.MessageListener;
import com.aliyun.openservices.ons.api.MessageSelector;
import com.aliyun.openservices.ons.api.ONSFactory;
import com.aliyun.openservices.ons.api.OnExceptionContext;
import com.aliyun.openservices.ons.api.Producer;
import com.aliyun.openservices.ons.api.PropertyKeyConst;
import com.aliyun.openservices.ons.api.PropertyValueConst;
import com.aliyun.openservices.ons.api.PullConsumer;
import com.aliyun.openservices.ons.api.SendCallback;
import com.aliyun.openservices.ons.api.SendResult;
import com.aliyun.openservices.ons.api.TopicPartition;
import com.aliyun.openservices.ons.api.batch.BatchConsumer;
import com.aliyun.openservices.ons.api.exception.ONSClientException;
import com.aliyun.openservices.ons.api.order.OrderAction;
import com.aliyun.openservices.ons.api.order.OrderConsumer;
import com.aliyun.openservices.ons.api.order.OrderProducer;
import com.aliyun.openservices.ons.api.transaction.TransactionProducer;
import com.aliyun.openservices.ons.api.transaction.TransactionStatus;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** The scenarios of Scenarios with Aliyun's client, as far as it has them. Arguments and output as there. */
public class OnsScenarios {
    static final int COUNT = 20;
    static final long WAIT_S = 90; // a pull whose connection was closed is begun again after 30 s
    static final long TWICE_MS = 300;
    static final long DELAY_MS = 1500;
    static final int ATTEMPTS = 5;
    /** In this time a consumer has its queues: one that broadcasts begins behind what is there by then. */
    static final long READY_MS = 3000;

    interface Scenario {
        void run() throws Exception;
    }

    interface Taker {
        boolean takes(Message message);
    }

    final Map<String, Scenario> all = new LinkedHashMap<>();
    final String namesrv;
    final String prefix;
    Producer producer;
    String name;
    CountDownLatch missing;

    OnsScenarios(String namesrv, String prefix) {
        this.namesrv = namesrv;
        this.prefix = prefix;
        all.put("sync", () -> consumed(COUNT, "*", this::take, this::sync));
        all.put("async", () -> consumed(COUNT, "*", this::take, this::async));
        all.put("oneway", () -> consumed(COUNT, "*", this::take, this::oneway));
        all.put("batch", this::batch);
        all.put("orderly", this::orderly);
        all.put("tags", () -> consumed(COUNT / 2, "A || C", this::take, this::tagged));
        all.put("sql", this::sql);
        all.put("broadcast", this::broadcast);
        all.put("lite_pull", this::litePull);
        all.put("retry", this::retry);
        all.put("transaction", this::transaction);
        all.put("timers", this::timers);
    }

    public static void main(String[] args) throws Exception {
        OnsScenarios scenarios = new OnsScenarios(args[0], args[1]);
        scenarios.producer = ONSFactory.createProducer(scenarios.properties("producer"));
        scenarios.producer.start();
        for (String each : Arrays.asList(args).subList(2, args.length)) {
            scenarios.name = each;
            try {
                scenarios.all.get(each).run();
            } catch (Exception | LinkageError error) {
                scenarios.say("FAILED", String.valueOf(error).replaceAll("\\s+", " "));
            }
            scenarios.say("DONE", "");
        }
        System.exit(0);
    }

    Properties properties(String instance) {
        Properties properties = new Properties();
        properties.put(PropertyKeyConst.NAMESRV_ADDR, namesrv);
        properties.put(PropertyKeyConst.AccessKey, "key");
        properties.put(PropertyKeyConst.SecretKey, "secret");
        properties.put(PropertyKeyConst.GROUP_ID, name == null ? prefix + "_producer" : topic() + "_group");
        properties.put(PropertyKeyConst.InstanceName, prefix + instance);
        properties.put(PropertyKeyConst.isVipChannelEnabled, "false");
        properties.put(PropertyKeyConst.MsgTraceSwitch, "false");
        properties.put(PropertyKeyConst.SendMsgTimeoutMillis, "60000"); // a JVM that starts needs more than 3 s
        return properties;
    }

    void say(String... words) {
        List<String> line = new ArrayList<>(Arrays.asList(words));
        line.add(1, name);
        System.out.println(String.join("\t", line));
    }

    String topic() {
        return prefix + "_" + name;
    }

    Message message(String key) {
        return message(key, "A");
    }

    Message message(String key, String tag) {
        Message message = new Message(topic(), tag, key.getBytes());
        message.setKey(key);
        return message;
    }

    static String yesOrNo(int n) {
        return (n % 2 == 0 ? "yes" : "no") + n;
    }

    void received(String key) {
        say("RECEIVED", key, "0");
        missing.countDown();
    }

    boolean take(Message message) {
        received(message.getKey());
        return true;
    }

    MessageListener listener(Taker taker) {
        return (message, context) -> taker.takes(message) ? Action.CommitMessage : Action.ReconsumeLater;
    }

    void await() throws Exception {
        if (!missing.await(WAIT_S, TimeUnit.SECONDS)) {
            say("FAILED", missing.getCount() + " did not come in " + WAIT_S + " s");
        }
        Thread.sleep(TWICE_MS);
    }

    void consumed(int count, String tags, Taker taker, Scenario sending) throws Exception {
        missing = new CountDownLatch(count);
        Consumer consumer = ONSFactory.createConsumer(properties(name));
        consumer.subscribe(topic(), tags, listener(taker));
        consumer.start();
        try {
            sending.run();
            await();
        } finally {
            consumer.shutdown();
        }
    }

    void sync() {
        for (int n = 0; n < COUNT; n++) {
            producer.send(message("k" + n));
            say("SENT", "k" + n);
        }
    }

    void async() {
        for (int n = 0; n < COUNT; n++) {
            String key = "k" + n;
            producer.sendAsync(message(key), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    say("SENT", key);
                }

                @Override
                public void onException(OnExceptionContext context) {
                    say("FAILED", context.getException().toString());
                }
            });
        }
    }

    void oneway() {
        for (int n = 0; n < COUNT; n++) {
            producer.sendOneway(message("k" + n));
            say("SENT", "k" + n);
        }
    }

    void tagged() {
        for (int n = 0; n < COUNT; n++) {
            producer.send(message(yesOrNo(n), n % 4 == 0 ? "A" : n % 2 == 0 ? "C" : "B"));
            say("SENT", yesOrNo(n));
        }
    }

    /** This client sends no batches; it consumes in batches. */
    void batch() throws Exception {
        missing = new CountDownLatch(COUNT);
        BatchConsumer consumer = ONSFactory.createBatchConsumer(properties(name));
        consumer.subscribe(topic(), "*", (messages, context) -> {
            messages.forEach(this::take);
            return Action.CommitMessage;
        });
        consumer.start();
        sync();
        await();
        consumer.shutdown();
    }

    void orderly() throws Exception {
        missing = new CountDownLatch(COUNT);
        OrderProducer orders = ONSFactory.createOrderProducer(properties("orders"));
        orders.start();
        OrderConsumer consumer = ONSFactory.createOrderedConsumer(properties(name));
        consumer.subscribe(topic(), "*", (message, context) -> {
            say("RECEIVED", message.getKey(), message.getShardingKey());
            missing.countDown();
            return OrderAction.Success;
        });
        consumer.start();
        for (int n = 0; n < COUNT; n++) {
            Message message = message("k" + n);
            message.setShardingKey(String.valueOf(n % 4));
            orders.send(message, message.getShardingKey());
            say("SENT", "k" + n);
        }
        await();
        consumer.shutdown();
        orders.shutdown();
    }

    void sql() throws Exception {
        missing = new CountDownLatch(COUNT / 2);
        Consumer consumer = ONSFactory.createConsumer(properties(name));
        consumer.subscribe(topic(),
            MessageSelector.bySql("(amount BETWEEN 0 AND 9 AND region IN ('north', 'south')) OR big IS NOT NULL"),
            listener(this::take));
        consumer.start();
        for (int n = 0; n < COUNT; n++) {
            Message message = message(yesOrNo(n));
            message.putUserProperties("region", n % 2 == 0 ? "north" : "east");
            message.putUserProperties("amount", String.valueOf(n));
            if (n % 2 == 0 && n > 9) {
                message.putUserProperties("big", "true");
            }
            producer.send(message);
            say("SENT", yesOrNo(n));
        }
        await();
        consumer.shutdown();
    }

    void broadcast() throws Exception {
        missing = new CountDownLatch(2 * COUNT);
        List<Consumer> consumers = new ArrayList<>();
        for (String instance : Arrays.asList("1", "2")) {
            Properties properties = properties(name + instance);
            properties.put(PropertyKeyConst.MessageModel, PropertyValueConst.BROADCASTING);
            Consumer consumer = ONSFactory.createConsumer(properties);
            consumer.subscribe(topic(), "*", listener(message -> {
                received(message.getKey() + "@" + instance);
                return true;
            }));
            consumer.start();
            consumers.add(consumer);
        }
        Thread.sleep(READY_MS);
        sync();
        await();
        consumers.forEach(Consumer::shutdown);
    }

    void litePull() throws Exception {
        missing = new CountDownLatch(COUNT);
        sync();
        PullConsumer consumer = ONSFactory.createPullConsumer(properties(name));
        consumer.start();
        Set<TopicPartition> partitions = consumer.topicPartitions(topic());
        consumer.assign(partitions);
        for (TopicPartition each : partitions) {
            seekToBeginning(consumer, each);
        }
        long end = System.currentTimeMillis() + WAIT_S * 1000;
        while (missing.getCount() > 0 && System.currentTimeMillis() < end) {
            consumer.poll(200).forEach(this::take);
        }
        consumer.poll(TWICE_MS).forEach(this::take);
        consumer.commitSync();
        await();
        consumer.shutdown();
    }

    /** Threads of this client that connect to a broker at the same time close each other's connection: it tries again. */
    static void seekToBeginning(PullConsumer consumer, TopicPartition partition) {
        for (int left = ATTEMPTS - 1; ; left--) {
            try {
                consumer.seekToBeginning(partition);
                return;
            } catch (ONSClientException closed) {
                if (left == 0) {
                    throw closed;
                }
            }
        }
    }

    void retry() throws Exception {
        consumed(COUNT, "*", message -> message.getReconsumeTimes() > 0 && take(message), this::sync);
    }

    void transaction() throws Exception {
        TransactionProducer transactions = ONSFactory.createTransactionProducer(properties("transactions"),
            message -> TransactionStatus.Unknow);
        transactions.start();
        consumed(COUNT / 2, "*", this::take, () -> {
            for (int n = 0; n < COUNT; n++) {
                String key = yesOrNo(n);
                try {
                    transactions.send(message(key), (message, arg) -> key.startsWith("yes")
                        ? TransactionStatus.CommitTransaction : TransactionStatus.RollbackTransaction, null);
                } catch (RuntimeException rolledBack) {
                    if (key.startsWith("yes")) {
                        throw rolledBack;
                    }
                }
                say("SENT", key);
            }
        });
        transactions.shutdown();
    }

    void timers() throws Exception {
        long[] earliest = {Long.MAX_VALUE};
        consumed(COUNT, "*", message -> {
            if (System.currentTimeMillis() < earliest[0]) {
                say("FAILED", message.getKey() + " came early");
            }
            return take(message);
        }, () -> {
            earliest[0] = System.currentTimeMillis() + DELAY_MS;
            for (int n = 0; n < COUNT; n++) {
                Message message = message("k" + n);
                message.setStartDeliverTime(System.currentTimeMillis() + DELAY_MS);
                producer.send(message);
                say("SENT", "k" + n);
            }
        });
    }
}
