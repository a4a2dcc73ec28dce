import java.util.ArrayList;

class Main {
    public static void main(String[] args) {
        ArrayList<byte[]> all = new ArrayList<>();
        for (;;) all.add(new byte[1 << 20]);
    }
}
