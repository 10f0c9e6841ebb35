import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileReader;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Debezium's embedded engine with a consumer that counts and throws away.
 *
 * Arguments: a file of properties, then TOPIC=COUNT. Each time a topic has had COUNT more events, a line on
 * standard output tells when the first and the last of them came, in milliseconds of the system's clock.
 * Ends with its standard input.
 */
public class Peer {
    private static final class Topic {
        final long count;
        long seen;
        long first;

        Topic(long count) {
            this.count = count;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileReader reader = new FileReader(arguments[0])) {
            properties.load(reader);
        }
        Map<String, Topic> topics = new HashMap<>();
        for (int i = 1; i < arguments.length; i++) {
            int equals = arguments[i].lastIndexOf('=');
            long count = Long.parseLong(arguments[i].substring(equals + 1));
            topics.put(arguments[i].substring(0, equals), new Topic(count));
        }
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
                .using(properties)
                .using((success, message, error) -> {
                    say("ended " + success + " " + message);
                    if (error != null) {
                        error.printStackTrace();
                    }
                    System.exit(success ? 0 : 1);
                })
                .notifying((events, committer) -> {
                    count(topics, events);
                    for (ChangeEvent<String, String> event : events) {
                        committer.markProcessed(event);
                    }
                    committer.markBatchFinished();
                })
                .build();
        Thread running = new Thread(engine, "engine");
        running.setDaemon(true);
        running.start();
        while (System.in.read() >= 0) {
            // whoever started us lives
        }
        System.exit(0);
    }

    private static void count(Map<String, Topic> topics, List<ChangeEvent<String, String>> events) {
        long now = System.currentTimeMillis();
        for (ChangeEvent<String, String> event : events) {
            Topic topic = topics.get(event.destination());
            if (topic == null || event.value() == null) {
                continue;
            }
            if (topic.seen % topic.count == 0) {
                topic.first = now;
            }
            topic.seen++;
            if (topic.seen % topic.count == 0) {
                say("counted " + event.destination() + " " + topic.first + " " + now);
            }
        }
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
