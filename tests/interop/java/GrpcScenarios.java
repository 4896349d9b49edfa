import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * What a team does with the gRPC client. Arguments and output as of Scenarios, but for the address, which is a proxy's
 * or the endpoint of our broker, and the queue, for which the number of the message's group stands. Of our broker the
 * environment has more addresses: TLS_ENDPOINTS; CONTROL, where its clock is moved and it is restarted; and
 * SIGNED_ENDPOINTS of a broker that knows ACCESS_KEY by its SECRET_KEY only.
 */
public class GrpcScenarios {
    static final int COUNT = 20;
    static final int GROUPS = 4;
    static final long DELAY_MS = 1500;
    static final long WAIT_S = 40;
    /** What would come twice comes within this time. */
    static final long TWICE_MS = 300;
    static final int HOURS = 20;
    static final Duration HIDDEN = Duration.ofSeconds(30);
    static final Duration SOON = Duration.ofSeconds(1);

    interface Scenario {
        void run() throws Exception;
    }

    final ClientServiceProvider provider = ClientServiceProvider.loadService();
    final Map<String, Scenario> all = new LinkedHashMap<>();
    ClientConfiguration configuration;
    final String prefix;
    Producer producer;
    String name;
    CountDownLatch missing;

    GrpcScenarios(String endpoints, String prefix) {
        this.configuration = ClientConfiguration.newBuilder().setEndpoints(endpoints).enableSsl(false).build();
        this.prefix = prefix;
        all.put("sync", () -> consumed(COUNT, FilterExpression.SUB_ALL, this::sync));
        all.put("async", () -> consumed(COUNT, FilterExpression.SUB_ALL, this::async));
        all.put("orderly", () -> consumed(COUNT, FilterExpression.SUB_ALL, this::grouped));
        all.put("tags", () -> consumed(COUNT / 2, new FilterExpression("A || C"), this::tagged));
        all.put("sql", () -> consumed(COUNT / 2,
            new FilterExpression("region = 'north' AND amount BETWEEN 0 AND 99", FilterExpressionType.SQL92),
            this::priced));
        all.put("retry", () -> consumed(COUNT, FilterExpression.SUB_ALL,
            view -> view.getDeliveryAttempt() > 1 ? take(view) : ConsumeResult.FAILURE, this::sync));
        all.put("dead_letters", this::deadLetters);
        all.put("transaction", this::transaction);
        all.put("timers", this::timers);
        all.put("recall", () -> consumed(COUNT / 2, FilterExpression.SUB_ALL, this::recalled));
        all.put("pop", this::pop);
        all.put("invisible_time", this::invisibleTime);
        all.put("given_up", this::deadLetters);
        all.put("signed", this::signed);
        all.put("tls", this::secured);
        all.put("days", () -> consumed(COUNT, FilterExpression.SUB_ALL, this::days));
        all.put("restart", () -> consumed(COUNT, FilterExpression.SUB_ALL, this::restarted));
    }

    public static void main(String[] args) throws Exception {
        new GrpcScenarios(args[0], args[1]).run(Arrays.asList(args).subList(2, args.length));
    }

    void run(List<String> names) throws Exception {
        producer = provider.newProducerBuilder().setClientConfiguration(configuration).build();
        for (String each : names) {
            name = each;
            try {
                all.get(each).run();
            } catch (Exception | LinkageError error) {
                say("FAILED", String.valueOf(error).replaceAll("\\s+", " "));
            }
            say("DONE", "");
        }
        producer.close();
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

    MessageBuilder message(String key) {
        return provider.newMessageBuilder().setTopic(topic()).setTag("A").setKeys(key)
            .setBody(key.getBytes(StandardCharsets.UTF_8));
    }

    String key(MessageView view) {
        return StandardCharsets.UTF_8.decode(view.getBody().duplicate()).toString();
    }

    SendReceipt send(String key, Message message) throws ClientException {
        SendReceipt receipt = producer.send(message);
        say("SENT", key);
        return receipt;
    }

    ConsumeResult take(MessageView view) {
        say("RECEIVED", key(view), view.getMessageGroup().orElse("0"));
        missing.countDown();
        return ConsumeResult.SUCCESS;
    }

    // --- consuming ---------------------------------------------------------------------------

    void await() throws InterruptedException {
        if (!missing.await(WAIT_S, TimeUnit.SECONDS)) {
            say("FAILED", missing.getCount() + " did not come in " + WAIT_S + " s");
        }
        Thread.sleep(TWICE_MS);
    }

    void consumed(int count, FilterExpression wanted, Scenario sending) throws Exception {
        consumed(count, wanted, this::take, sending);
    }

    void consumed(int count, FilterExpression wanted, MessageListener listener, Scenario sending) throws Exception {
        missing = new CountDownLatch(count);
        PushConsumer consumer = pushConsumer(wanted, listener);
        try {
            sending.run();
            await();
        } finally {
            consumer.close();
        }
    }

    PushConsumer pushConsumer(FilterExpression wanted, MessageListener listener) throws ClientException {
        return provider.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group())
            .setSubscriptionExpressions(Collections.singletonMap(topic(), wanted)).setMessageListener(listener).build();
    }

    SimpleConsumer simpleConsumer() throws ClientException {
        return simpleConsumer(group(), topic());
    }

    SimpleConsumer simpleConsumer(String group, String topic) throws ClientException {
        return provider.newSimpleConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
            .setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL)).build();
    }

    /** Receive and acknowledge until so many came, or none for too long. */
    void receive(SimpleConsumer consumer, int count, long notBefore) throws ClientException {
        long end = System.currentTimeMillis() + WAIT_S * 1000;
        int came = 0;
        while (came < count && System.currentTimeMillis() < end) {
            for (MessageView view : consumer.receive(10, HIDDEN)) {
                if (System.currentTimeMillis() < notBefore) {
                    say("FAILED", key(view) + " came early");
                }
                say("RECEIVED", key(view), "0");
                consumer.ack(view);
                came++;
            }
        }
        if (came < count) {
            say("FAILED", count - came + " did not come in " + WAIT_S + " s");
        }
    }

    // --- scenarios ---------------------------------------------------------------------------

    void sync() throws ClientException {
        for (int n = 0; n < COUNT; n++) {
            send("k" + n, message("k" + n).build());
        }
    }

    void async() {
        List<CompletableFuture<Void>> sent = new ArrayList<>();
        for (int n = 0; n < COUNT; n++) {
            String key = "k" + n;
            sent.add(producer.sendAsync(message(key).build()).thenAccept(receipt -> say("SENT", key)));
        }
        CompletableFuture.allOf(sent.toArray(new CompletableFuture[0])).join();
    }

    void grouped() throws ClientException {
        for (int n = 0; n < COUNT; n++) {
            send("k" + n, message("k" + n).setMessageGroup(String.valueOf(n % GROUPS)).build());
        }
    }

    void tagged() throws ClientException {
        for (int n = 0; n < COUNT; n++) {
            String key = (n % 2 == 0 ? "yes" : "no") + n;
            send(key, message(key).setTag(n % 4 == 0 ? "A" : n % 2 == 0 ? "C" : "B").build());
        }
    }

    void priced() throws ClientException {
        for (int n = 0; n < COUNT; n++) {
            String key = (n % 2 == 0 ? "yes" : "no") + n;
            send(key, message(key).addProperty("region", n % 2 == 0 ? "north" : "east")
                .addProperty("amount", String.valueOf(n)).build());
        }
    }

    /**
     * Who waits for dead letters gets what nobody takes. A group in order gives a message up by a request of its own;
     * the others' are given up by the server.
     */
    void deadLetters() throws Exception {
        PushConsumer failing = pushConsumer(FilterExpression.SUB_ALL, view -> ConsumeResult.FAILURE);
        try (SimpleConsumer consumer = simpleConsumer(group() + "_readers", "%DLQ%" + group())) {
            if (name.equals("given_up")) {
                sync();
            } else {
                grouped();
            }
            receive(consumer, COUNT, 0);
        } finally {
            failing.close();
        }
    }

    /** Every fourth is left open: the broker asks, by way of the proxy, and is told that it is right. */
    void transaction() throws Exception {
        Producer transactions = provider.newProducerBuilder().setClientConfiguration(configuration)
            .setTopics(topic())
            .setTransactionChecker(view -> key(view).startsWith("yes") ? TransactionResolution.COMMIT
                : TransactionResolution.ROLLBACK)
            .build();
        try {
            consumed(COUNT / 2, FilterExpression.SUB_ALL, () -> {
                for (int n = 0; n < COUNT; n++) {
                    String key = (n % 2 == 0 ? "yes" : "no") + n;
                    Transaction transaction = transactions.beginTransaction();
                    transactions.send(message(key).build(), transaction);
                    say("SENT", key);
                    if (n % 4 == 1) {
                        transaction.rollback();
                    } else if (n % 4 == 2) {
                        transaction.commit();
                    }
                }
            });
        } finally {
            transactions.close();
        }
    }

    /** The program of RocketMQ's page on delayed messages, with a shorter delay. */
    void timers() throws Exception {
        try (SimpleConsumer consumer = simpleConsumer()) {
            long earliest = System.currentTimeMillis() + DELAY_MS;
            for (int n = 0; n < COUNT; n++) {
                send("k" + n, message("k" + n).setDeliveryTimestamp(System.currentTimeMillis() + DELAY_MS).build());
            }
            receive(consumer, COUNT, earliest);
        }
    }

    void recalled() throws ClientException {
        for (int n = 0; n < COUNT; n++) {
            String key = (n % 2 == 0 ? "yes" : "no") + n;
            SendReceipt receipt = send(key,
                message(key).setDeliveryTimestamp(System.currentTimeMillis() + 4 * DELAY_MS).build());
            if (n % 2 != 0) {
                producer.recallMessage(topic(), receipt.getRecallHandle());
            }
        }
    }

    void pop() throws Exception {
        try (SimpleConsumer consumer = simpleConsumer()) {
            sync();
            receive(consumer, COUNT, 0);
        }
    }

    /** What is seen first is hidden for a second only, and comes again: then it is taken. */
    void invisibleTime() throws Exception {
        Set<String> seen = ConcurrentHashMap.newKeySet();
        try (SimpleConsumer consumer = simpleConsumer()) {
            sync();
            long end = System.currentTimeMillis() + WAIT_S * 1000;
            int taken = 0;
            while (taken < COUNT && System.currentTimeMillis() < end) {
                for (MessageView view : consumer.receive(10, HIDDEN)) {
                    if (seen.add(key(view))) {
                        consumer.changeInvisibleDuration(view, SOON);
                        continue;
                    }
                    say("RECEIVED", key(view), "0");
                    consumer.ack(view);
                    taken++;
                }
            }
        }
    }

    /** As the client comes: it speaks TLS, and takes any certificate. */
    void secured() throws Exception {
        ClientConfiguration plain = configuration;
        Producer plainly = producer;
        configuration = ClientConfiguration.newBuilder().setEndpoints(System.getenv("TLS_ENDPOINTS")).build();
        producer = provider.newProducerBuilder().setClientConfiguration(configuration).build();
        try {
            consumed(COUNT, FilterExpression.SUB_ALL, this::sync);
        } finally {
            producer.close();
            configuration = plain;
            producer = plainly;
        }
    }

    /** What is signed with another secret is refused. */
    void signed() throws Exception {
        ClientConfiguration plain = configuration;
        Producer plainly = producer;
        try {
            configuration = account(System.getenv("SECRET_KEY"));
            producer = provider.newProducerBuilder().setClientConfiguration(configuration).build();
            consumed(COUNT, FilterExpression.SUB_ALL, this::sync);
            producer.close();
            producer = provider.newProducerBuilder().setClientConfiguration(account("another")).build();
            producer.send(message("none").build());
            say("FAILED", "another secret is taken, too");
        } catch (ClientException refused) {
            if (!refused.toString().contains("40100")) {
                throw refused;
            }
        } finally {
            producer.close();
            configuration = plain;
            producer = plainly;
        }
    }

    static ClientConfiguration account(String secret) {
        return ClientConfiguration.newBuilder().setEndpoints(System.getenv("SIGNED_ENDPOINTS")).enableSsl(false)
            .setCredentialProvider(new StaticSessionCredentialsProvider(System.getenv("ACCESS_KEY"), secret)).build();
    }

    /** The broker goes and comes back; nobody is told, and all go on. */
    void restarted() throws Exception {
        for (int n = 0; n < COUNT; n++) {
            if (n == COUNT / 2) {
                while (missing.getCount() > COUNT / 2) {
                    Thread.sleep(20);
                }
                Thread.sleep(TWICE_MS);
                ask("restart", "{}");
            }
            insist("k" + n);
        }
    }

    /** Send until it is taken: the first attempts may find no broker. */
    void insist(String key) throws Exception {
        long end = System.currentTimeMillis() + WAIT_S * 1000;
        while (true) {
            try {
                send(key, message(key).build());
                return;
            } catch (ClientException | RuntimeException unreachable) { // gRPC's own come as they are
                if (System.currentTimeMillis() > end) {
                    throw unreachable;
                }
                Thread.sleep(20);
            }
        }
    }

    /** Most of a day passes in a moment, and nothing comes; then one more hour does. */
    void days() throws Exception {
        long due = System.currentTimeMillis() + TimeUnit.HOURS.toMillis(HOURS);
        for (int n = 0; n < COUNT; n++) {
            send("k" + n, message("k" + n).setDeliveryTimestamp(due).build());
        }
        advance(HOURS - 1);
        Thread.sleep(TWICE_MS);
        if (missing.getCount() < COUNT) {
            say("FAILED", COUNT - missing.getCount() + " came an hour early");
        }
        advance(1);
    }

    static void advance(int hours) throws Exception {
        ask("clock/advance", "{\"hours\": " + hours + "}");
    }

    static void ask(String what, String fields) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(System.getenv("CONTROL") + "/" + what))
            .header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(fields)).build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IllegalStateException(answer.body());
        }
    }
}
