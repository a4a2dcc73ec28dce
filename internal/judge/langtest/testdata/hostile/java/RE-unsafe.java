// abuse: 75 60
// signal: 6
import java.lang.reflect.Field;

public class Main {
    public static void main(String[] args) throws Exception {
        Field f = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        f.setAccessible(true);
        ((sun.misc.Unsafe) f.get(null)).putAddress(8, 1);
    }
}
