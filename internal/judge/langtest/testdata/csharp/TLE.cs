class P { static void Main() { for (;;) {} } }
