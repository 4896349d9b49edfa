import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.filter.expression.BooleanExpression;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.parser.SelectorParser;

/**
 * Says what RocketMQ's own filter makes of expressions and properties. Each line of input is an expression and then
 * names and values, in Base64 with a space between them; each line of output is T, F, N (unknown), X (cannot be
 * evaluated) or C (cannot be compiled) with what clients are told, in Base64.
 */
public class SqlOracle {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            Map<String, Object> properties = new HashMap<>();
            for (int n = 1; n + 1 < words.length; n += 2) {
                properties.put(decoded(words[n]), decoded(words[n + 1]));
            }
            out.println(answer(decoded(words[0]), properties));
        }
        out.flush();
    }

    static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    static String answer(String expression, Map<String, Object> properties) {
        BooleanExpression compiled;
        try {
            compiled = SelectorParser.parse(expression);
        } catch (Throwable error) {
            String told = String.valueOf(error.getMessage());
            return "C " + Base64.getEncoder().encodeToString(told.getBytes(StandardCharsets.UTF_8));
        }
        try {
            Object value = compiled.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return properties.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return properties;
                }
            });
            return value == null ? "N" : value == Boolean.TRUE ? "T" : value == Boolean.FALSE ? "F" : "?" + value;
        } catch (Throwable error) {
            return "X";
        }
    }
}
