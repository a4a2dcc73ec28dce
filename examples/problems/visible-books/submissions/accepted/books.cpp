#include <iostream>

int main() {
    std::ios::sync_with_stdio(false);
    int n, seen = 0;
    long tallest = 0, height;
    std::cin >> n;
    while (n-- > 0 && std::cin >> height) {
        if (height > tallest) {
            tallest = height;
            ++seen;
        }
    }
    std::cout << seen << '\n';
}
