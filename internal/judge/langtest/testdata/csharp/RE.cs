class P { static void Main(string[] args) { System.Console.WriteLine(args[7]); } }
