// Throws when there are many stones. @EXPECTED_RESULTS@: RUN-ERROR
#include <iostream>
#include <stdexcept>

int main() {
    int n;
    long long balance = 0, weight;
    std::cin >> n;
    if (n > 100) throw std::runtime_error("too many stones");
    for (int i = 0; i < n; ++i) {
        std::cin >> weight;
        bool left = balance <= 0;
        balance += left ? weight : -weight;
        std::cout << (left ? 1 : 2) << ' ';
    }
    std::cout << '\n';
}
