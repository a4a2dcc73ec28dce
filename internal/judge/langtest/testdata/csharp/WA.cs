class P { static void Main() { System.Console.WriteLine(3); } }
