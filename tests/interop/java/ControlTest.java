import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.io.TempDir;

/**
 * What a Java team writes: its own client, JUnit, and the JDK's HTTP client for clock, faults and looks.
 * System properties: namesrv (host:port), control (a URL). The broker's clock is frozen.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class ControlTest {
    static final long GUARD_S = 60;
    final HttpClient http = HttpClient.newHttpClient();
    final String control = System.getProperty("control");
    final String namesrv = System.getProperty("namesrv");
    final DefaultMQProducer producer = new DefaultMQProducer("ControlProducer");

    @BeforeAll
    void start() throws Exception {
        producer.setNamesrvAddr(namesrv);
        Patient.producer(producer);
        producer.start();
    }

    @AfterAll
    void end() {
        producer.shutdown();
    }

    @BeforeEach
    void anew() throws Exception {
        post("/reset", "{}");
        post("/topics", "{\"name\": \"Orders\", \"queues\": 2}");
        post("/config", "{\"options\": {\"timerMaxDelaySec\": 3456000}}");
    }

    @Test
    void aMessageOfNextMonthComesWhenTheClockIsMovedAndNotBefore() throws Exception {
        BlockingQueue<MessageExt> received = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("ControlConsumer");
        consumer.setNamesrvAddr(namesrv);
        Patient.client(consumer);
        consumer.subscribe("Orders", "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            received.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            post("/groups/ControlConsumer/wait", "{\"timeout\": 60}");
            Message message = new Message("Orders", "next month".getBytes("UTF-8"));
            message.setDelayTimeSec(30 * 86400);
            SendResult sent = producer.send(message);
            assertTrue(get("/timers?topic=Orders").contains("\"msg_id\":\"" + sent.getMsgId() + "\""));
            assertEquals("scheduled", field(get("/messages/" + sent.getMsgId() + "/trace"), "state"));

            post("/clock/advance", "{\"days\": 29, \"hours\": 23}");
            assertEquals("0", field(get("/topics/Orders"), "count"));
            assertEquals("1", field(post("/clock/advance", "{\"hours\": 1}"), "fired"));

            MessageExt arrived = received.poll(GUARD_S, TimeUnit.SECONDS);
            assertEquals("next month", new String(arrived.getBody(), "UTF-8"));
            assertEquals(sent.getMsgId(), arrived.getMsgId());
            assertTrue(received.isEmpty());
        } finally {
            consumer.shutdown();
        }
    }

    @Test
    void aBusyBrokerIsAskedAgainAndTheJournalTellsBoth() throws Exception {
        post("/faults", "{\"code\": \"SEND_MESSAGE_V2\", \"topic\": \"Orders\", \"verb\": \"respond\","
            + " \"response\": \"SYSTEM_BUSY\"}");
        SendResult sent = producer.send(new Message("Orders", new byte[] {1}));
        assertEquals(SendStatus.SEND_OK, sent.getSendStatus());
        String journal = get("/journal?code=SEND_MESSAGE_V2&topic=Orders&count=2");
        assertEquals("2", field(journal, "count"));
        assertTrue(journal.contains("\"language\":\"JAVA\""));
        assertEquals("[]", get("/faults?unused=true"));
        assertEquals("1", field(get("/topics/Orders"), "count"));
    }

    @Test
    void aFullDiskRefusesSendsUntilThereIsRoom() throws Exception {
        String fault = post("/faults/disk/fill_after", "{\"bytes\": 0}");
        assertThrows(MQClientException.class, () -> producer.send(new Message("Orders", new byte[100])));
        ask("DELETE", "/faults/" + field(fault, "number"), null, 200);
        producer.send(new Message("Orders", new byte[100]));
        assertEquals("1", field(get("/topics/Orders"), "count"));
    }

    @Test
    void whatWasAcknowledgedIsThereAfterACrash() throws Exception {
        Message message = new Message("Orders", new byte[] {1});
        message.setDelayTimeSec(60);
        SendResult sent = producer.send(message);
        String report = post("/crash", "{\"restart_after_ms\": 10}");
        assertEquals("1", field(report, "timers_pending"));
        assertTrue(get("/timers").contains(sent.getMsgId()));
    }

    @Test
    void aSnapshotIsAStoreAndAResetEmpties(@TempDir Path folder) throws Exception {
        producer.send(new Message("Orders", new byte[] {1}));
        Path copy = folder.resolve("copy");
        post("/snapshot", "{\"path\": \"" + copy + "\"}");
        assertTrue(Files.isDirectory(copy.resolve("commitlog")));
        post("/reset", "{}");
        assertEquals("[]", get("/topics"));
        assertFalse(get("/state").contains("Orders"));
    }

    @Test
    void whatIsNotPossibleNamesSettingValueAndLimit() throws Exception {
        String told = ask("POST", "/topics", "{\"name\": \"X\", \"queues\": 5000}", 400);
        assertEquals("queues", field(told, "setting"));
        assertEquals("5000", field(told, "value"));
        assertEquals("a whole number from 1 to 1024", field(told, "limit"));
    }

    String get(String path) throws Exception {
        return ask("GET", path, null, 200);
    }

    String post(String path, String json) throws Exception {
        return ask("POST", path, json, 200);
    }

    String ask(String method, String path, String json, int status) throws Exception {
        HttpRequest.BodyPublisher body = json == null
            ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(json);
        HttpRequest request = HttpRequest.newBuilder(URI.create(control + path))
            .header("Content-Type", "application/json").method(method, body).build();
        HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        assertEquals(status, answer.statusCode(), answer.body());
        return answer.body();
    }

    /** The value of a member: enough of JSON for what is asked here. */
    static String field(String json, String name) {
        String[] parts = json.split("\"" + name + "\":", 2);
        assertEquals(2, parts.length, name + " in " + json);
        return parts[1].startsWith("\"")
            ? parts[1].substring(1, parts[1].indexOf('"', 1)) : parts[1].split("[,}\\]]")[0];
    }
}
