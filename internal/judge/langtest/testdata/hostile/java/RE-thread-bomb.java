// abuse: 11 M23
// The machine says on standard output that it got no thread; the program ends with a code of its own when it noticed.
// exit: 42
public class Main {
    public static void main(String[] args) {
        int n = 0;
        try {
            for (; n < 5000; n++) {
                Thread t = new Thread(null, () -> { try { Thread.sleep(1000000); } catch (InterruptedException e) { } }, "x", 1 << 16);
                t.setDaemon(true);
                t.start();
            }
        } catch (Throwable e) { }
        Runtime.getRuntime().halt(n < 5000 ? 42 : 0);
    }
}
