class P { static void Main() { missing(); } }
