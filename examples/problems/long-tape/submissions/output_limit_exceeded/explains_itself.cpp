// Prints the state after every number, with a margin that fills the page.
#include <iomanip>
#include <iostream>

int main() {
    std::ios::sync_with_stdio(false);
    int n, last = -1, x, run = 0, best = 0;
    std::cin >> n;
    if (n < 1000) {
        while (std::cin >> x) {
            run = x < last ? 1 : run + 1;
            if (run > best) best = run;
            last = x;
        }
        std::cout << best << '\n';
        return 0;
    }
    while (std::cin >> x) {
        std::cout << std::setw(4000) << x << '\n';
    }
}
