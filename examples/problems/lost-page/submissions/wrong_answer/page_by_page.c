/* Turns the pages one by one: too many tries in a large book. */
#include <stdio.h>

int main(void) {
    int n;
    char word[10] = "";
    if (scanf("%d", &n) != 1) {
        return 1;
    }
    for (int page = 1; page <= n && word[0] != 'h'; page++) {
        printf("%d\n", page);
        fflush(stdout);
        if (scanf("%9s", word) != 1) {
            break;
        }
    }
    return 0;
}
