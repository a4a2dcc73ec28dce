// Keeps every way to fill the baskets before it answers.
#include <iostream>
#include <vector>

int main() {
    int n;
    std::cin >> n;
    std::vector<long long> weight(n), ways{0};
    for (auto &w : weight) std::cin >> w;
    for (long long w : weight) {
        std::vector<long long> next;
        next.reserve(2 * ways.size());
        for (long long x : ways) {
            next.push_back(x + w);
            next.push_back(x - w);
        }
        ways.swap(next);
    }
    std::cerr << ways.size() << " ways\n";
    long long balance = 0;
    for (long long w : weight) {
        bool left = balance <= 0;
        balance += left ? w : -w;
        std::cout << (left ? 1 : 2) << ' ';
    }
    std::cout << '\n';
}
