import java.util.Scanner;

class First {
    void main() {}
}

final class Second {
    public static void main(String args[]) {
        Scanner in = new Scanner(System.in);
        System.out.println(in.nextInt() + in.nextInt());
    }
}
