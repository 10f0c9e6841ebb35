import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;

/**
 * Java's own text of floats: bit patterns on standard input, highest byte first, a line for each on standard
 * output. The argument says how many bits they have.
 */
public class Floats {
    private static final int BUFFER = 1 << 16;

    public static void main(String[] arguments) throws Exception {
        boolean wide = Integer.parseInt(arguments[0]) == Double.SIZE;
        DataInputStream input = new DataInputStream(new BufferedInputStream(System.in, BUFFER));
        try (PrintStream output = new PrintStream(
                new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), BUFFER))) {
            while (true) {
                output.append(wide
                        ? Double.toString(Double.longBitsToDouble(input.readLong()))
                        : Float.toString(Float.intBitsToFloat(input.readInt()))).append('\n');
            }
        } catch (EOFException end) {
            // all are written
        }
    }
}
