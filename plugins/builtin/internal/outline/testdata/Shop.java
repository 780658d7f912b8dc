package a.b;
import java.util.*;
@Service("shop")
public class Shop<T extends Item> extends Base implements Closeable {
    public static final int MAX = 10;
    private final List<T> items = new ArrayList<>();
    public Shop(int n) { this.n = n; }
    @Override
    public void close() throws IOException { }
    interface Visitor { void visit(Item i); }
    enum State { OPEN, CLOSED; State next() { return OPEN; } }
    record Point(int x, int y) { Point { } }
}
@interface Marker { int value() default 0; }
