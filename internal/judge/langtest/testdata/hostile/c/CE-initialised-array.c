// abuse: 19 G04
char a[1u << 30] = {1};
int main(void) { return a[5]; }
