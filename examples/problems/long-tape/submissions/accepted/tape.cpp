#include <algorithm>
#include <iostream>

int main() {
    std::ios::sync_with_stdio(false);
    std::cin.tie(nullptr);
    int n, last = -1, x, run = 0, best = 0;
    std::cin >> n;
    while (n-- > 0 && std::cin >> x) {
        run = x < last ? 1 : run + 1;
        best = std::max(best, run);
        last = x;
    }
    std::cout << best << '\n';
}
