import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/**
 * Thirty days pass in a moment, asked for from another process: the JDK alone is enough.
 *
 * rocketmq-py serve --control-port 9880 --clock frozen --set timerMaxDelaySec=3456000
 * java examples/control/Later.java http://127.0.0.1:9880
 */
public class Later {
    static final HttpClient CLIENT = HttpClient.newHttpClient();

    public static void main(String[] args) throws Exception {
        post(args[0] + "/topics", "{\"name\": \"Later\"}");
        post(args[0] + "/messages", "{\"topic\": \"Later\", \"body\": \"hello\", \"delay\": 2592000}");
        System.out.println(post(args[0] + "/clock/advance", "{\"days\": 30}"));
        System.out.println(post(args[0] + "/topics/Later/wait", "{\"count\": 1}"));
    }

    static String post(String url, String json) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url)).header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(json)).build();
        HttpResponse<String> answer = CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) throw new IllegalStateException(answer.body());
        return answer.body();
    }
}
