#include <math.h>
#include <stdio.h>

int main(void) {
    int n;
    double x0, y0, x, y, length = 0;
    if (scanf("%d %lf %lf", &n, &x0, &y0) != 3) return 1;
    double px = x0, py = y0;
    for (int i = 1; i < n; i++) {
        if (scanf("%lf %lf", &x, &y) != 2) return 1;
        length += hypot(x - px, y - py);
        px = x;
        py = y;
    }
    length += hypot(x0 - px, y0 - py);
    printf("%.9f\n", length);
    return 0;
}
