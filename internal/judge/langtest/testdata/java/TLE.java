class Main {
    public static void main(String[] args) {
        for (int i = 0;; i++) {
            if (i == -1) i = 0;
        }
    }
}
