import java.util.Scanner;

class Deep {
    static int count(int n) { return n == 0 ? 0 : 1 + count(n - 1); }

    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        System.out.println(in.nextInt() + in.nextInt() + count(300000) - 300000);
    }
}
