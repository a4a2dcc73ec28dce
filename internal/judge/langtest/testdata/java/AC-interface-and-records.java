import java.util.Scanner;

record Pair(int a, int b) {
    int sum() { return a + b; }
}

interface Start {
    static void main(java.lang.String[] args) {
        Scanner in = new Scanner(System.in);
        System.out.println(new Pair(in.nextInt(), in.nextInt()).sum());
    }
}
