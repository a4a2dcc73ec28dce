// abuse: 4
public class Main {
    static volatile long sink;
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 4; i++) new Thread(() -> { for (;;) sink++; }).start();
        Thread.sleep(1000000);
    }
}
