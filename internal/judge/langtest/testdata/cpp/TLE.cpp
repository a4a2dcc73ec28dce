int main() {
    volatile unsigned n = 0;
    for (;;) n = n + 1;
}
