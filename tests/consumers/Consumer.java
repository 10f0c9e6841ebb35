import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Kafka Connect's converters, and a transformation, on records: JSON lines on standard input with topic, key, value
 * and headers, bytes in base64. For each a line goes to standard output: the record as the converter reads it, every
 * value as text, and under "faults" what is not byte for byte what the converters write for it.
 *
 * Arguments: a transformation's class, if any, and its settings as NAME=VALUE. A record that it drops is null.
 */
public class Consumer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private static final JsonConverter KEYS = new JsonConverter();
    private static final JsonConverter VALUES = new JsonConverter();
    private static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();
    /** By topic, the key of the last record with a header, and the header. */
    private static final Map<String, SchemaAndValue> OLD_KEYS = new HashMap<>();
    private static final Map<String, byte[]> NEW_KEYS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        KEYS.configure(Map.of("schemas.enable", "true"), true);
        VALUES.configure(Map.of("schemas.enable", "true"), false);
        Transformation<SourceRecord> transformation = transformation(arguments);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.println(JSON.writeValueAsString(read(JSON.readTree(line), transformation)));
        }
        output.flush();
    }

    @SuppressWarnings("unchecked")
    private static Transformation<SourceRecord> transformation(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            return null;
        }
        Map<String, String> settings = new HashMap<>();
        for (int i = 1; i < arguments.length; i++) {
            int equals = arguments[i].indexOf('=');
            settings.put(arguments[i].substring(0, equals), arguments[i].substring(equals + 1));
        }
        Object made = Class.forName(arguments[0]).getDeclaredConstructor().newInstance();
        Transformation<SourceRecord> transformation = (Transformation<SourceRecord>) made;
        transformation.configure(settings);
        return transformation;
    }

    private static JsonNode read(JsonNode record, Transformation<SourceRecord> transformation)
            throws IOException {
        String topic = record.get("topic").asText();
        ArrayNode faults = NODES.arrayNode();
        SchemaAndValue key = converted(KEYS, topic, bytes(record, "key"), "key", faults);
        SchemaAndValue value = converted(VALUES, topic, bytes(record, "value"), "value", faults);
        SourceRecord read = new SourceRecord(
                null, null, topic, null, key.schema(), key.value(), value.schema(), value.value());
        for (JsonNode header : record.get("headers")) {
            String name = header.get(0).asText();
            SchemaAndValue shown = HEADERS.toConnectHeader(topic, name, header.get(1).binaryValue());
            read.headers().add(name, shown);
            checkHeader(topic, name, header.get(1).binaryValue(), key, faults);
        }
        if (transformation != null) {
            read = transformation.apply(read);
        }
        return read == null ? NODES.nullNode() : shown(read, faults);
    }

    private static ObjectNode shown(SourceRecord record, ArrayNode faults) {
        ObjectNode shown = NODES.objectNode().put("topic", record.topic());
        shown.set("key", typed(record.keySchema(), record.key()));
        shown.set("value", typed(record.valueSchema(), record.value()));
        shown.set("faults", faults);
        return shown;
    }

    private static byte[] bytes(JsonNode record, String name) throws IOException {
        return record.get(name).isNull() ? null : record.get(name).binaryValue();
    }

    private static SchemaAndValue converted(
            JsonConverter converter, String topic, byte[] bytes, String part, ArrayNode faults) {
        SchemaAndValue read = converter.toConnectData(topic, bytes);
        byte[] again = converter.fromConnectData(topic, read.schema(), read.value());
        if (!Arrays.equals(bytes, again)) {
            faults.add(part + ": the converter writes " + new String(again, StandardCharsets.UTF_8));
        }
        return read;
    }

    private static void checkHeader(
            String topic, String name, byte[] header, SchemaAndValue key, ArrayNode faults) {
        if (name.equals("__debezium.newkey")) {
            if (!NEW_KEYS.containsKey(topic)) {
                OLD_KEYS.put(topic, key);
            }
            NEW_KEYS.put(topic, header);
            return;
        }
        compare(topic, "oldkey", OLD_KEYS.remove(topic), header, faults);
        compare(topic, "newkey", key, NEW_KEYS.remove(topic), faults);
    }

    private static void compare(
            String topic, String name, SchemaAndValue key, byte[] header, ArrayNode faults) {
        byte[] written = HEADERS.fromConnectHeader(topic, name, key.schema(), key.value());
        if (!Arrays.equals(written, header)) {
            faults.add(name + ": the converter writes " + new String(written, StandardCharsets.UTF_8));
        }
    }

    /** A value as text: floats by their bits, bytes in hexadecimal digits, decimals and dates by what they mean. */
    private static JsonNode typed(Schema schema, Object value) {
        if (value == null) {
            return NODES.nullNode();
        }
        if (schema == null) {
            return NODES.textNode(value.toString());
        }
        if (value instanceof BigDecimal) {
            return NODES.textNode(((BigDecimal) value).toPlainString());
        }
        if (value instanceof java.util.Date) {
            return NODES.textNode(Long.toString(((java.util.Date) value).getTime()));
        }
        switch (schema.type()) {
            case FLOAT32:
                return NODES.textNode(String.format("%08x", Float.floatToRawIntBits((Float) value)));
            case FLOAT64:
                return NODES.textNode(String.format("%016x", Double.doubleToRawLongBits((Double) value)));
            case BYTES:
                return NODES.textNode(HexFormat.of().formatHex(octets(value)));
            case ARRAY:
                ArrayNode items = NODES.arrayNode();
                ((Collection<?>) value).forEach(item -> items.add(typed(schema.valueSchema(), item)));
                return items;
            case MAP:
                ObjectNode entries = NODES.objectNode();
                ((Map<?, ?>) value).forEach(
                        (name, item) -> entries.set((String) name, typed(schema.valueSchema(), item)));
                return entries;
            case STRUCT:
                return struct((Struct) value);
            default:
                return NODES.textNode(value.toString());
        }
    }

    private static JsonNode struct(Struct value) {
        if ("io.debezium.data.VariableScaleDecimal".equals(value.schema().name())) {
            BigInteger unscaled = new BigInteger(octets(value.get("value")));
            return NODES.textNode(new BigDecimal(unscaled, value.getInt32("scale")).toPlainString());
        }
        ObjectNode fields = NODES.objectNode();
        for (Field field : value.schema().fields()) {
            fields.set(field.name(), typed(field.schema(), value.get(field)));
        }
        return fields;
    }

    private static byte[] octets(Object value) {
        if (value instanceof byte[]) {
            return (byte[]) value;
        }
        ByteBuffer buffer = ((ByteBuffer) value).duplicate();
        byte[] octets = new byte[buffer.remaining()];
        buffer.get(octets);
        return octets;
    }
}
