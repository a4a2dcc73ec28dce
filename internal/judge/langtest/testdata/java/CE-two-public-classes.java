public class One {
    public static void main(String[] args) {}
}

public class Two {}
