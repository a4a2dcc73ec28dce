/* Asks for the middle of what is left. */
#include <stdio.h>

int main(void) {
    int n;
    if (scanf("%d", &n) != 1) {
        return 1;
    }
    int low = 1, high = n;
    char word[10];
    for (;;) {
        int page = low + (high - low) / 2;
        printf("%d\n", page);
        fflush(stdout);
        if (scanf("%9s", word) != 1) {
            return 1;
        }
        if (word[0] == 'h') {
            return 0;
        }
        if (word[0] == 'b') {
            high = page - 1;
        } else {
            low = page + 1;
        }
    }
}
