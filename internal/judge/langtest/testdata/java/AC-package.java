package a.b;

import java.util.Scanner;

public class Solution {
    public static void main(final String... args) throws Exception {
        Scanner in = new Scanner(System.in);
        System.out.println(in.nextInt() + in.nextInt());
    }
}
