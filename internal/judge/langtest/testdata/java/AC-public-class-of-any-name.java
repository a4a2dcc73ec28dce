import java.util.Scanner;

class Helper {
    static int sum(int a, int b) { return a + b; }
}

// A comment that mentions public class Wrong must fool nobody.
public class Foo {
    static final String TEXT = "public class AlsoWrong {";

    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        System.out.println(Helper.sum(in.nextInt(), in.nextInt()));
    }
}
