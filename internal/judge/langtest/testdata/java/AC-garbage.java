import java.util.Scanner;

/** Makes gigabytes of garbage with 60 MiB alive. */
class Garbage {
    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        byte[][] alive = new byte[60][];
        for (int i = 0; i < 2000; i++) alive[i % 60] = new byte[1 << 20];
        System.out.println(in.nextInt() + in.nextInt());
    }
}
