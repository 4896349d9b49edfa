import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.Permission;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of mqadmin one after the other in one process. Argument: a file with a command in each line, its
 * words separated by tabs. What a command prints, on both streams, comes between BEGIN and END, line by line.
 */
public class AdminCommands {
    public static void main(String[] args) throws Exception {
        System.setSecurityManager(new NoExit());
        PrintStream out = System.out;
        int number = 0;
        for (String line : Files.readAllLines(Paths.get(args[0]), StandardCharsets.UTF_8)) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream printer = new PrintStream(said, true, "UTF-8");
            System.setOut(printer);
            System.setErr(printer);
            forgetCommands();
            try {
                MQAdminStartup.main(line.split("\t"));
            } catch (SecurityException ended) {
                printer.println(ended.getMessage());
            }
            printer.flush();
            out.println("BEGIN\t" + number);
            out.print(said.toString("UTF-8"));
            out.println("\nEND\t" + number++);
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    /** Some commands can be run once only: each line gets new ones. The list's name is another one in 4.9. */
    private static void forgetCommands() throws IllegalAccessException {
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (List.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                ((List<?>) field.get(null)).clear();
            }
        }
    }

    /** Commands that do not understand their arguments end the process; here they end themselves only. */
    private static class NoExit extends SecurityManager {
        @Override
        public void checkExit(int status) {
            throw new SecurityException("exit " + status);
        }

        @Override
        public void checkPermission(Permission permission) {
            // Everything else is allowed.
        }
    }
}
