using System;
using System.Linq;

public class AnyName {
    public static void Main() {
        Console.WriteLine(Console.ReadLine().Split(' ').Select(int.Parse).Sum());
    }
}
