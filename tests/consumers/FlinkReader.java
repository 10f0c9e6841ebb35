import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * A table of Flink's over files of change events, read in its own local cluster. Arguments: the statement that
 * makes the table, and the one that reads it. A line goes to standard output for each row of the changelog: what
 * kind of change it is, and its values as text, floats by their bits, bytes in hexadecimal digits.
 */
public class FlinkReader {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    public static void main(String[] arguments) throws Exception {
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        tables.getConfig().set("parallelism.default", "1");
        tables.executeSql(arguments[0]);
        ObjectMapper json = new ObjectMapper();
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        try (CloseableIterator<Row> rows = tables.executeSql(arguments[1]).collect()) {
            while (rows.hasNext()) {
                Row row = rows.next();
                ArrayNode line = NODES.arrayNode().add(row.getKind().shortString());
                for (int place = 0; place < row.getArity(); place++) {
                    line.add(text(row.getField(place)));
                }
                output.println(json.writeValueAsString(line));
            }
        }
        output.flush();
        System.exit(0);
    }

    private static JsonNode text(Object value) {
        if (value == null) {
            return NODES.nullNode();
        }
        if (value instanceof Float) {
            return NODES.textNode(String.format("%08x", Float.floatToRawIntBits((Float) value)));
        }
        if (value instanceof Double) {
            return NODES.textNode(String.format("%016x", Double.doubleToRawLongBits((Double) value)));
        }
        if (value instanceof byte[]) {
            return NODES.textNode(HexFormat.of().formatHex((byte[]) value));
        }
        if (value instanceof Object[]) {
            ArrayNode items = NODES.arrayNode();
            for (Object item : (Object[]) value) {
                items.add(text(item));
            }
            return items;
        }
        if (value instanceof Row) {
            Row row = (Row) value;
            ObjectNode fields = NODES.objectNode();
            for (String name : row.getFieldNames(true)) {
                fields.set(name, text(row.getField(name)));
            }
            return fields;
        }
        if (value instanceof Map) {
            ObjectNode entries = NODES.objectNode();
            ((Map<?, ?>) value).forEach((name, item) -> entries.set(name.toString(), text(item)));
            return entries;
        }
        return NODES.textNode(value.toString());
    }
}
