import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import java.io.FileReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;

/**
 * Debezium's embedded engine, whose records go to standard output as Kafka Connect would send them: a JSON object
 * a line with topic, key, value and headers as text.
 *
 * The argument is a file of properties. Ends with its standard input, after what it has taken is written and its
 * position is kept.
 */
public class Debezium {
    private static final ObjectMapper LINES = new ObjectMapper();
    private static final JsonConverter KEYS = new JsonConverter();
    private static final JsonConverter VALUES = new JsonConverter();
    private static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileReader reader = new FileReader(arguments[0])) {
            properties.load(reader);
        }
        KEYS.configure(schemas(properties, "key"), true);
        VALUES.configure(schemas(properties, "value"), false);
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine = DebeziumEngine.create(Connect.class)
                .using(properties)
                .using((success, message, error) -> {
                    if (!success) {
                        System.err.println(message);
                        if (error != null) {
                            error.printStackTrace();
                        }
                        System.exit(1);
                    }
                })
                .notifying((events, committer) -> {
                    for (ChangeEvent<SourceRecord, SourceRecord> event : events) {
                        System.out.println(line(event.value()));
                        System.out.flush(); // what counts as processed was written, even if we are killed now
                        committer.markProcessed(event);
                    }
                    committer.markBatchFinished();
                })
                .build();
        Thread running = new Thread(engine, "engine");
        running.start();
        while (System.in.read() >= 0) {
            // whoever started us lives
        }
        engine.close();
        running.join();
        System.exit(0);
    }

    private static Map<String, String> schemas(Properties properties, String part) {
        return Map.of("schemas.enable", properties.getProperty(part + ".converter.schemas.enable", "true"));
    }

    private static String line(SourceRecord record) {
        try {
            ObjectNode line = LINES.createObjectNode();
            line.put("topic", record.topic());
            line.put("key", text(KEYS.fromConnectData(record.topic(), record.keySchema(), record.key())));
            line.put("value", text(VALUES.fromConnectData(record.topic(), record.valueSchema(), record.value())));
            ArrayNode headers = line.putArray("headers");
            for (Header header : record.headers()) {
                ObjectNode shown = headers.addObject();
                shown.put("key", header.key());
                shown.put("value", text(HEADERS.fromConnectHeader(
                        record.topic(), header.key(), header.schema(), header.value())));
            }
            return LINES.writeValueAsString(line);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }
}
