#include <cstdint>
#include <iostream>
#include <vector>

int main() {
    std::int64_t n, m, x, pairs = 0;
    std::cin >> n >> m >> x;
    std::vector<std::int64_t> seen(m);
    for (; n > 0; --n) {
        pairs += seen[(m - x % m) % m];
        ++seen[x % m];
        x = (1103515245 * x + 12345) & 0x7fffffff;
    }
    std::cout << pairs << '\n';
}
