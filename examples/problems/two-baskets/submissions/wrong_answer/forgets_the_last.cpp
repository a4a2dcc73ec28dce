#include <iostream>

int main() {
    int n;
    long long balance = 0, weight;
    std::cin >> n;
    for (int i = 0; i + 1 < n; ++i) {
        std::cin >> weight;
        bool left = balance <= 0;
        balance += left ? weight : -weight;
        std::cout << (left ? 1 : 2) << ' ';
    }
    std::cout << '\n';
}
